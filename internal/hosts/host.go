package hosts

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/biocypher/biocage-mcp/internal/spell"
)

// A Scope says whose configuration is meant.
type Scope string

// The scopes: all of a user's projects, or one project.
const (
	User    Scope = "user"
	Project Scope = "project"
)

// A Place is where files are looked for: the system of runtime.GOOS, the user's
// home, the project's directory, and the environment.
type Place struct {
	OS      string
	Home    string
	Project string
	Getenv  func(name string) string
}

// A Host is one program that starts servers.
type Host struct {
	Name  string // as in --host
	Title string
	After string // what makes it see the change

	edit    editor
	user    func(p Place) string
	project string // below the project's directory; empty without that scope
}

// An editor knows one file format.
type editor interface {
	snippet(s Server) string
	set(old []byte, s Server) ([]byte, error)
	remove(old []byte, name string) ([]byte, error)
	find(old []byte, name string) map[string]any
}

// All gives every host.
func All() []Host {
	return []Host{
		{
			Name: "claude-desktop", Title: "Claude Desktop", After: "Quit Claude Desktop and start it again.",
			edit: jsonFile{key: "mcpServers"},
			user: func(p Place) string { return p.join(p.appData(), "Claude", "claude_desktop_config.json") },
		},
		{
			Name: "claude-code", Title: "Claude Code", After: "Start Claude Code again; /mcp shows the server.",
			edit: jsonFile{key: "mcpServers", typed: true},
			user: func(p Place) string {
				return p.join(first(p.Getenv("CLAUDE_CONFIG_DIR"), p.Home), ".claude.json")
			},
			project: ".mcp.json",
		},
		{
			Name: "vscode", Title: "VS Code", After: "Start the server in VS Code with the command \"MCP: List Servers\".",
			edit:    jsonFile{key: "servers", typed: true},
			user:    func(p Place) string { return p.join(p.appData(), "Code", "User", "mcp.json") },
			project: ".vscode/mcp.json",
		},
		{
			Name: "cursor", Title: "Cursor", After: "Switch the server on in Cursor's settings, under MCP.",
			edit:    jsonFile{key: "mcpServers"},
			user:    func(p Place) string { return p.join(p.Home, ".cursor", "mcp.json") },
			project: ".cursor/mcp.json",
		},
		{
			Name: "codex", Title: "Codex", After: "Start Codex again; codex mcp list shows the server.",
			edit: tomlFile{key: "mcp_servers"},
			user: func(p Place) string {
				return p.join(first(p.Getenv("CODEX_HOME"), p.join(p.Home, ".codex")), "config.toml")
			},
			project: ".codex/config.toml",
		},
		{
			Name: "gemini", Title: "Gemini CLI", After: "Start Gemini CLI again; /mcp shows the server.",
			edit:    jsonFile{key: "mcpServers"},
			user:    func(p Place) string { return p.join(p.Home, ".gemini", "settings.json") },
			project: ".gemini/settings.json",
		},
	}
}

// Names gives the name of every host.
func Names() []string {
	var names []string
	for _, h := range All() {
		names = append(names, h.Name)
	}
	return names
}

// Find gives the host of a name.
func Find(name string) (Host, error) {
	for _, h := range All() {
		if h.Name == name {
			return h, nil
		}
	}
	text := fmt.Sprintf("there is no host %q; the hosts are %s", name, strings.Join(Names(), ", "))
	if near := spell.Nearest(name, Names()); near != "" {
		text = fmt.Sprintf("there is no host %q; did you mean %s?", name, near)
	}
	return Host{}, fault{ErrUnknown, text}
}

// Scopes gives what the host has, the usual one first.
func (h Host) Scopes() []Scope {
	if h.project == "" {
		return []Scope{User}
	}
	return []Scope{User, Project}
}

// File gives the path of the host's configuration.
func (h Host) File(p Place, scope Scope) (string, error) {
	switch {
	case !slices.Contains([]Scope{User, Project}, scope):
		return "", fault{ErrUnknown, fmt.Sprintf("the scope %q is not one of user, project", scope)}
	case !slices.Contains(h.Scopes(), scope):
		return "", fault{ErrUnknown, h.Title + " has no configuration for one project; use --scope user"}
	case scope == Project:
		return p.join(p.Project, strings.Split(h.project, "/")...), nil
	case p.Home == "":
		return "", fault{ErrUnknown, "the home directory is not known; set HOME"}
	}
	return h.user(p), nil
}

// Snippet is a whole file with nothing but the server.
func (h Host) Snippet(s Server) string { return h.edit.snippet(s) }

// Set gives the file's content with the server added, or changed to start what
// s says. What else the server's entry and the file hold stays.
func (h Host) Set(old []byte, s Server) ([]byte, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	return h.edit.set(old, s)
}

// Remove gives the file's content without the server, or the same where it has
// none.
func (h Host) Remove(old []byte, name string) ([]byte, error) { return h.edit.remove(old, name) }

// Arguments gives what the server is started with, and whether the file has it.
func (h Host) Arguments(old []byte, name string) (args []string, there bool) {
	entry := h.edit.find(old, name)
	list, _ := entry["args"].([]any)
	for _, arg := range list {
		if text, ok := arg.(string); ok {
			args = append(args, text)
		}
	}
	return args, entry != nil
}

// AfterRemoval says what makes the host see that a server is gone.
func (h Host) AfterRemoval() string {
	return "Quit " + h.Title + " and start it again; until then the server that it has started runs on."
}

// appData is where graphical programs keep a user's settings.
func (p Place) appData() string {
	switch p.OS {
	case "darwin":
		return p.join(p.Home, "Library", "Application Support")
	case "windows":
		return first(p.Getenv("APPDATA"), p.join(p.Home, "AppData", "Roaming"))
	}
	return first(p.Getenv("XDG_CONFIG_HOME"), p.join(p.Home, ".config"))
}

// join builds a path of the system that is meant, which need not be this one.
func (p Place) join(base string, parts ...string) string {
	if p.OS == "windows" {
		return strings.Join(append([]string{strings.TrimRight(base, `\/`)}, parts...), `\`)
	}
	return path.Join(append([]string{base}, parts...)...)
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
