package environment

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	debianSuite   = "trixie" // Debian 13: Python 3.13
	debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	debianScripts = "/usr/share/debootstrap/scripts/"
)

// debianPackages are what the base needs beyond a minimal Debian.
func debianPackages() string { return "python3,ca-certificates" }

// debootstrapWay makes a minimal Debian out of its package archive.
func (s *Store) debootstrapWay(mirror string, report reporter) baseWay {
	var tool string
	return baseWay{
		kind: BaseDebootstrap, ref: debianSuite,
		digest: func(context.Context) (string, error) {
			var err error
			tool, err = debianTool()
			return "", err
		},
		fill: func(ctx context.Context, dir string) error {
			return s.bootstrap(ctx, tool, mirror, dir, report)
		},
		measure: packagesDigest,
	}
}

// debianTool finds debootstrap or mmdebstrap, or tells everything that is
// missing for them.
func debianTool() (string, error) {
	var missing []error
	if os.Geteuid() != 0 {
		missing = append(missing, errors.New("it needs root: run the build with sudo, which serves every user of this machine"))
	}
	tool := ""
	for _, name := range []string{"debootstrap", "mmdebstrap"} {
		for _, dir := range filepath.SplitList(systemPath) {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() && tool == "" {
				tool = filepath.Join(dir, name)
			}
		}
	}
	if tool == "" {
		missing = append(missing, errors.New("there is neither debootstrap nor mmdebstrap: apt-get install debootstrap"))
	}
	if _, err := os.Stat(debianKeyring); err != nil {
		missing = append(missing, fmt.Errorf("there is no %s to check Debian's signatures with: apt-get install debian-archive-keyring", debianKeyring))
	}
	return tool, errors.Join(missing...)
}

// bootstrap runs the tool. Its downloads are kept, so that a build that was
// interrupted does not fetch them again.
func (s *Store) bootstrap(ctx context.Context, tool, mirror, dir string, report reporter) error {
	cache := s.cache("debian")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	var args []string
	if filepath.Base(tool) == "mmdebstrap" {
		args = []string{"--mode=root", "--variant=minbase", "--include=" + debianPackages(), "--keyring=" + debianKeyring, debianSuite, dir}
		if mirror != "" {
			args = append(args, mirror)
		}
	} else {
		args = []string{"--variant=minbase", "--include=" + debianPackages(), "--cache-dir=" + cache, "--keyring=" + debianKeyring, "--force-check-gpg", debianSuite, dir}
		args = append(args, mirrorAndScript(mirror)...)
	}
	count := int64(0)
	_, err := run(ctx, step{
		Name:    "make a minimal Debian",
		Env:     s.stepEnv("HOME=/root"),
		Network: true,
		Merge:   true,
		Line: func(line string) {
			count++
			report.progress(phaseBase, strings.TrimPrefix(line, "I: "), count, 0)
		},
	}, "/bin/sh", append([]string{"-c", `mount --make-rprivate / && exec "$0" "$@"`, tool}, args...)...)
	return explainBootstrap(err)
}

// mirrorAndScript are debootstrap's last arguments. A host that is older than
// the suite has no script of its name; all suites since have the same steps.
func mirrorAndScript(mirror string) []string {
	if _, err := os.Stat(debianScripts + debianSuite); err == nil {
		if mirror == "" {
			return nil // the tool's own default
		}
		return []string{mirror}
	}
	if mirror == "" {
		mirror = "http://deb.debian.org/debian" // the tool's default cannot be named
	}
	return []string{mirror, debianScripts + "sid"}
}

// explainBootstrap adds the remedy to failures that have one.
func explainBootstrap(err error) error {
	var failed *StepError
	if !errors.As(err, &failed) {
		return err
	}
	switch {
	case strings.Contains(failed.Output, "unknown key") || strings.Contains(failed.Output, "NO_PUBKEY"):
		return fmt.Errorf("this host's %s is too old to know the keys of Debian %s; upgrade the package debian-archive-keyring: %w", debianKeyring, debianSuite, err)
	case strings.Contains(failed.Output, "Failed getting release file") || strings.Contains(failed.Output, "Invalid Release file"):
		return fmt.Errorf("the Debian archive cannot be reached; check the network and the proxy, or name a mirror: %w", err)
	}
	return err
}

// packagesDigest is the hash of the names and versions of all Debian packages
// of a tree: it changes whenever the base does.
func packagesDigest(dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // only read
	file, err := root.Open("var/lib/dpkg/status")
	if err != nil {
		return "", fmt.Errorf("read the Debian packages: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	var packages []string
	name := ""
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if value, found := strings.CutPrefix(scanner.Text(), "Package: "); found {
			name = value
		} else if value, found := strings.CutPrefix(scanner.Text(), "Version: "); found {
			packages = append(packages, name+"="+value)
		}
	}
	if err := scanner.Err(); err != nil {
		return "", fmt.Errorf("read the Debian packages: %w", err)
	}
	slices.Sort(packages)
	sum := sha256.Sum256([]byte(strings.Join(packages, "\n")))
	return "packages:" + hex.EncodeToString(sum[:]), nil
}
