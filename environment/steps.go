package environment

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed inside
var insideFiles embed.FS

// stepEnv is the environment of a build's commands: fixed, but for the proxy,
// certificate and package index settings of the host.
func (s *Store) stepEnv(extra ...string) []string {
	env := append([]string{"PATH=" + systemPath, "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}, extra...)
	for _, key := range []string{
		"http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
		"UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_HTTP_TIMEOUT",
	} {
		if value := s.environ.get(key); value != "" {
			env = append(env, key+"="+value)
		}
	}
	return env
}

// furnish puts into the support directory what steps with a network need: the
// host's resolver settings and certificates.
func (s *Store) furnish(support string) error {
	for name, candidates := range map[string][]string{
		"resolv.conf": {"/etc/resolv.conf"},
		"certs.pem":   {s.environ.get("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"},
	} {
		for _, candidate := range candidates {
			content, err := os.ReadFile(candidate)
			if errors.Is(err, os.ErrNotExist) || candidate == "" {
				continue
			}
			if err != nil {
				return fmt.Errorf("read the host's settings: %w", err)
			}
			if err := os.WriteFile(filepath.Join(support, name), content, 0o644); err != nil { //nolint:gosec // names of our own
				return fmt.Errorf("copy the host's settings: %w", err)
			}
			break
		}
	}
	return nil
}

// installSystem installs Debian packages into the tree.
func (b *build) installSystem(ctx context.Context, packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	b.report.say(phaseSystem, "installing "+strings.Join(packages, " "))
	script := `command -v apt-get >/dev/null || { echo "the base has no apt-get; choose a Debian base, or set apt = [] under [tool.biocage]" >&2; exit 1; }
mkdir -p /var/cache/debconf /var/log/apt /var/lib/apt/lists/partial /run/cache/apt/partial
options="-qq -o APT::Sandbox::User=root -o Dir::Cache::archives=/run/cache/apt -o Dpkg::Use-Pty=0"
apt-get $options update
apt-get $options install --yes --no-install-recommends "$@"`
	_, err := b.room.enter(ctx, step{
		Name:    "install the Debian packages",
		Command: append([]string{"/bin/sh", "-euc", script, "apt"}, packages...),
		Env:     b.store.stepEnv("HOME=/root"),
		Network: true,
		Merge:   true,
		Line:    b.lines(phaseSystem),
	})
	return err
}

// uv runs the uv of this build inside the tree.
func (b *build) uv(ctx context.Context, phase, name string, args ...string) error {
	_, err := b.room.enter(ctx, step{
		Name:    name,
		Command: append([]string{"/run/build/uv", "--no-config", "--no-python-downloads", "--color", "never"}, args...),
		Env:     b.store.stepEnv("HOME=/tmp", "UV_CACHE_DIR=/run/cache/uv", "SSL_CERT_FILE=/run/build/certs.pem", "UV_LINK_MODE=copy"),
		Network: true,
		Merge:   true,
		Line:    b.lines(phase),
	})
	return err
}

// compileLock makes a hashed lock out of a checked project.
func (b *build) compileLock(ctx context.Context, p project, python interpreter) ([]byte, error) {
	b.report.say(phaseLock, fmt.Sprintf("resolving %d requirements", len(p.Dependencies)))
	input, err := p.lockInput()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(b.room.support, "pyproject.toml"), input, 0o644); err != nil {
		return nil, fmt.Errorf("write the requirements: %w", err)
	}
	err = b.uv(ctx, phaseLock, "resolve the requirements", "pip", "compile", "--quiet", "--python", python.Path,
		"--generate-hashes", "--no-header", "--no-annotate", "--only-binary", ":all:",
		"--output-file", "/run/build/requirements.lock", "/run/build/pyproject.toml")
	if err != nil {
		return nil, err
	}
	lock, err := os.ReadFile(filepath.Join(b.room.support, "requirements.lock"))
	if err != nil {
		return nil, fmt.Errorf("read the lock: %w", err)
	}
	return lock, nil
}

// installPython makes the virtual environment and unpacks the locked wheels.
func (b *build) installPython(ctx context.Context, lock []byte, python interpreter) error {
	pins, err := parseLock(lock)
	if err != nil {
		return err
	}
	b.report.say(phasePython, fmt.Sprintf("installing %d packages", len(pins)))
	if err := os.WriteFile(filepath.Join(b.room.support, "requirements.lock"), lock, 0o644); err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	if err := b.uv(ctx, phasePython, "make the virtual environment", "venv", "--quiet", "--python", python.Path, venvDir); err != nil {
		return err
	}
	return b.uv(ctx, phasePython, "install the Python packages", "pip", "install", "--python", pythonPath,
		"--require-hashes", "--only-binary", ":all:", "--no-deps", "--strict", "--requirements", "/run/build/requirements.lock")
}

// prepared is what inside/prepare.py answers.
type prepared struct {
	Failed map[string]string `json:"failed"`
	Fonts  *struct {
		Name     string `json:"name"`
		List     string `json:"list"`
		Settings string `json:"settings"`
	} `json:"fonts"`
}

var fontListPattern = regexp.MustCompile(`^fontlist-v[0-9.]+\.json$`)

// check imports what the environment promises, as nobody and without a
// network, and writes what that prepared into the tree.
func (b *build) check(ctx context.Context, preload []string) error {
	b.report.say(phaseCheck, "importing "+strings.Join(preload, " "))
	script, err := insideFiles.ReadFile("inside/prepare.py")
	if err != nil {
		return err
	}
	env := slices.DeleteFunc(Environment{}.Env(), func(e string) bool { return strings.HasPrefix(e, "MATPLOTLIBRC=") })
	out, err := b.room.enter(ctx, step{
		Name:    "try the environment",
		Command: append([]string{pythonPath, "-I", "-c", string(script)}, preload...),
		Env:     append(env, "HOME=/tmp"),
		Nobody:  true,
	})
	if err != nil {
		return err
	}
	var answer prepared
	if err := json.Unmarshal(out, &answer); err != nil {
		return fmt.Errorf("try the environment: %w", err)
	}
	var faults []error
	for _, module := range preload {
		if reason, failed := answer.Failed[module]; failed {
			faults = append(faults, fmt.Errorf("tool.biocage.preload: %s cannot be imported: %s", module, reason))
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w:\n%w", ErrProject, errors.Join(faults...))
	}
	return b.writeSupport(answer)
}

// writeSupport writes matplotlib's settings and font list into the tree.
func (b *build) writeSupport(answer prepared) error {
	files := map[string]string{supportDir + "/matplotlibrc": "# No matplotlib in this environment.\n"}
	if answer.Fonts != nil {
		if !fontListPattern.MatchString(answer.Fonts.Name) {
			return fmt.Errorf("try the environment: %q is not the name of a font list", answer.Fonts.Name)
		}
		files[supportDir+"/matplotlibrc"] = answer.Fonts.Settings
		files[supportDir+"/mpl/"+answer.Fonts.Name] = answer.Fonts.List
	}
	for name, content := range files {
		if err := b.writeFile(name, []byte(content)); err != nil {
			return err
		}
	}
	return nil
}

// installHook lets every interpreter hand matplotlib the prepared font list.
func (b *build) installHook() error {
	hook, err := insideFiles.ReadFile("inside/biocage_fonts.py")
	if err != nil {
		return err
	}
	if err := b.writeFile(b.site+"/biocage_fonts.py", hook); err != nil {
		return err
	}
	return b.writeFile(b.site+"/biocage_fonts.pth", []byte("import biocage_fonts\n"))
}

// lines reports each line that a command writes.
func (b *build) lines(phase string) func(string) {
	count := int64(0)
	return func(line string) {
		count++
		b.report.progress(phase, line, count, 0)
	}
}
