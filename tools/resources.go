package tools

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/biocypher/biocage-mcp/internal/requestid"
	"github.com/biocypher/biocage-mcp/session"
)

const (
	maxListed   = 100             // resources in one page
	listWithin  = 3 * time.Second // for a page
	maxSessions = 32              // of one caller, whose files are listed
)

// A page is a place in the list of resources: what comes behind this file.
type page struct {
	Session string `json:"s"`
	Path    string `json:"p"`
}

// Resources lists the files at the top of the workspaces of the caller's
// sessions, page by page. It starts nothing, and it does not wait for code that
// runs.
func Resources(sessions Sessions, opts Options) func(ctx context.Context, cursor string) ([]mcp.Resource, string, error) {
	t := newToolset(sessions, opts)
	return func(ctx context.Context, cursor string) ([]mcp.Resource, string, error) {
		ctx = requestid.Ensure(ctx)
		after, bad := parsePage(cursor)
		v := view{method: methodList, session: after.Session, arguments: map[string]string{"cursor": cursor}}
		more := false
		list, err := see(ctx, t, v, func(ctx context.Context) (list []mcp.Resource, _ error) {
			if bad != nil {
				return nil, bad
			}
			ctx, cancel := context.WithTimeout(ctx, listWithin)
			defer cancel()
			list, more = t.listResources(ctx, after)
			return list, nil
		})
		switch {
		case err != nil:
			return nil, "", t.failure(ctx, methodList, "", err)
		case !more:
			return list, "", nil
		}
		return list, after.next(list), nil
	}
}

func parsePage(cursor string) (page, error) {
	var p page
	if cursor == "" {
		return p, nil
	}
	data, err := base64.StdEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(data, &p) != nil || p.Session == "" {
		return page{}, badArgument("cursor", "The cursor is not one that this server gave; list from the start without it.")
	}
	return p, nil
}

// next is the cursor behind the last resource of a list.
func (page) next(list []mcp.Resource) string {
	last, err := parseURI(list[len(list)-1].URI)
	if err != nil {
		return ""
	}
	data, err := json.Marshal(page{Session: last.session, Path: last.path})
	if err != nil {
		return ""
	}
	return base64.StdEncoding.EncodeToString(data)
}

// listResources gives one page and tells whether more follows.
func (t *toolset) listResources(ctx context.Context, after page) (list []mcp.Resource, more bool) {
	list = []mcp.Resource{}
	handles := t.sessions.Handles(refOf(ctx, ""))
	handles = handles[:min(len(handles), maxSessions)]
	if after.Session != "" {
		at := slices.Index(handles, after.Session)
		if at < 0 {
			return list, false // it has ended meanwhile
		}
		handles = handles[at:]
	}
	for _, handle := range handles {
		for _, e := range t.topFiles(ctx, handle) {
			if handle == after.Session && e.Path <= after.Path {
				continue
			}
			if len(list) == maxListed {
				return list, true
			}
			list = append(list, fileOf(handle, e))
		}
	}
	return list, false
}

// topFiles gives the files at the top of a session's workspace; of a session
// that has ended meanwhile, or does not answer, none.
func (t *toolset) topFiles(ctx context.Context, handle string) []session.Entry {
	files, err := t.sessions.PeekFiles(ctx, refOf(ctx, handle), session.ListRequest{})
	if err != nil {
		t.log.DebugContext(ctx, "files of a session not listed", "error", err)
		return nil
	}
	return slices.DeleteFunc(slices.Clone(files.Entries), func(e session.Entry) bool {
		return e.Type != "file" || !listable(e.Path)
	})
}

// listable tells whether a name can be shown as it is; others can still be
// read by who knows them.
func listable(path string) bool {
	return !strings.HasPrefix(path, ".") && Sanitize(path) == path && !strings.ContainsAny(path, "\n\t") && len(path) <= 255
}

func fileOf(handle string, e session.Entry) mcp.Resource {
	r := mcp.Resource{URI: resourceURI(handle, e.Path), Name: e.Path, MIMEType: safeMIME(session.MIMEByName(e.Path)), Size: &e.Size}
	r.Annotations = &mcp.Annotations{LastModified: e.Modified.UTC().Format(time.RFC3339)}
	return r
}
