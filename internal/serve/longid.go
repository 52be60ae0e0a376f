package serve

import "encoding/json"

// maxLongID bounds the id of a message.
const maxLongID = 1 << 10

// An idScanner finds the id of a message whose bytes pass by in pieces and
// are not kept, so that its sender can be answered: some clients write the id
// behind the arguments.
type idScanner struct {
	depth           int
	quoted, escaped bool
	token           []byte // the name or value under way in the message itself
	name            string
	found           []byte
}

func (s *idScanner) scan(part []byte) {
	for _, c := range part {
		switch {
		case s.quoted:
			s.keep(c)
			s.quoted = s.escaped || c != '"'
			s.escaped = !s.escaped && c == '\\'
		case c == '"':
			s.keep(c)
			s.quoted = true
		default:
			s.mark(c)
		}
	}
}

// mark takes a byte that is in no string.
func (s *idScanner) mark(c byte) {
	switch c {
	case '{', '[':
		s.depth++
	case '}', ']':
		s.end()
		s.depth--
	case ',':
		s.end()
	case ':':
		if s.depth == 1 {
			s.name, s.token = string(s.token), s.token[:0]
		}
	case ' ', '\t', '\r', '\n':
	default:
		s.keep(c)
	}
}

func (s *idScanner) keep(c byte) {
	if s.depth == 1 && len(s.token) <= maxLongID {
		s.token = append(s.token, c)
	}
}

// end ends a member of the message.
func (s *idScanner) end() {
	if s.depth != 1 {
		return
	}
	if s.name == `"id"` {
		s.found = append(s.found[:0], s.token...)
	}
	s.name, s.token = "", s.token[:0]
}

// id gives the id of the message, which has ended, or nil.
func (s *idScanner) id() []byte {
	if s.depth != 0 || s.quoted || len(s.found) == 0 || !json.Valid(s.found) || !isID(s.found) {
		return nil
	}
	return s.found
}
