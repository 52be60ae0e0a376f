package docker

import (
	"strconv"
	"time"
)

// Labels of our containers, by which leftovers are found.
const (
	labelInstance = "io.biocage.instance"
	labelSession  = "io.biocage.session"
	labelOwner    = "io.biocage.owner"
	labelCreated  = "io.biocage.created"
	labelVersion  = "io.biocage.version"
	labelUID      = "io.biocage.uid"
)

func (e *Engine) labels(session string, uid int, now time.Time) map[string]string {
	return map[string]string{
		labelInstance: e.instance,
		labelSession:  session,
		labelOwner:    e.me.String(),
		labelCreated:  now.UTC().Format(time.RFC3339),
		labelVersion:  e.opts.Version,
		labelUID:      strconv.Itoa(uid),
	}
}
