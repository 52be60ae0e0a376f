package session

// remembered bounds how many ended sessions can still be explained.
const remembered = 2000

// A grave is how somebody may ask for a session that is no more: by its
// handle, or by its place.
type grave struct {
	handle string
	place  place
}

// A memory keeps why sessions have ended: the latest ones.
type memory struct {
	whys   map[grave]string
	order  []grave // oldest first
	forgot bool    // some are no longer known
}

func newMemory() memory { return memory{whys: map[grave]string{}} }

func (m *memory) why(g grave) (why string, known bool) {
	why, known = m.whys[g]
	return why, known
}

// take is why, once: it forgets what it tells.
func (m *memory) take(g grave) string {
	why := m.whys[g]
	delete(m.whys, g)
	return why
}

func (m *memory) keep(g grave, why string) {
	if _, known := m.whys[g]; !known {
		m.order = append(m.order, g)
	}
	m.whys[g] = why
	for len(m.order) > remembered {
		m.forgot = m.forgot || m.order[0].handle != ""
		delete(m.whys, m.order[0])
		m.order = m.order[1:]
	}
}
