package environment

import (
	"regexp"
	"time"
)

// Places inside every environment.
const (
	venvDir    = "/opt/venv"
	pythonPath = venvDir + "/bin/python3"
	supportDir = "/opt/biocage-env" // matplotlib's settings and font list
	markerPath = "/etc/biocage-environment.json"
)

// DefaultName is the name of the environment that ships with the program.
const DefaultName = "default"

// An Environment is a built root file system.
type Environment struct {
	Name     string    `json:"name"`
	ID       string    `json:"id"`              // hash of everything the content depends on
	Dir      string    `json:"-"`               // the tree on this host
	Image    string    `json:"image"`           // the reference that Load gives it in the Docker daemon
	Python   string    `json:"python"`          // path of the interpreter inside
	Version  string    `json:"python_version"`  // "3.13.5"
	Base     string    `json:"base"`            // what it was built from, for people
	Packages []Package `json:"packages"`        // installed Python packages, by name
	Preload  []string  `json:"preload"`         // modules worth importing before the first cell
	Created  time.Time `json:"created"`         // end of the build
	Size     int64     `json:"size"`            // bytes on disk
	Notes    []string  `json:"notes,omitempty"` // what a person should know about this build
}

// A Package is an installed Python distribution.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Env is what processes inside need to use this environment: the search path,
// the locale, and where matplotlib finds its settings. MPLCONFIGDIR must be
// writable, or matplotlib makes its font list anew in every process; a start-up
// hook inside the environment puts the prepared list there. Arrow, which pandas
// keeps its texts in, takes a gibibyte of addresses at its first use with its
// own allocator; half of what the interpreter's soft memory limit allows.
func (e Environment) Env() []string {
	return []string{
		"PATH=" + venvDir + "/bin:/usr/local/bin:/usr/bin:/bin",
		"VIRTUAL_ENV=" + venvDir,
		"LANG=C.UTF-8",
		"LC_ALL=C.UTF-8",
		"PYTHONNOUSERSITE=1",
		"MPLBACKEND=Agg",
		"MPLCONFIGDIR=/tmp/.matplotlib",
		"MATPLOTLIBRC=" + supportDir + "/matplotlibrc",
		"ARROW_DEFAULT_MEMORY_POOL=system",
	}
}

var namePattern = regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*$`)

// checkName tells whether name can name an environment: it becomes a directory
// and a part of an image reference.
func checkName(name string) error {
	if len(name) > 64 || !namePattern.MatchString(name) {
		return ErrName
	}
	return nil
}

// imageRef is the reference of an environment's image: the id makes it exact.
func imageRef(name, id string) string { return imageRepository(name) + ":" + id[:12] }

func imageRepository(name string) string { return "biocage/" + name }
