package environment

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The pinned release of uv, as a wheel with a statically linked binary that
// runs in any root file system.
const (
	uvVersion = "0.13.9"
	uvMember  = "uv-" + uvVersion + ".data/scripts/uv"
)

// Bounds of what the package index answers.
const (
	maxIndexPage = 32 << 20
	maxUVWheel   = 64 << 20
	maxUVBinary  = 256 << 20
)

// defaultIndex is where uv's wheel is looked for unless the environment names
// another index, by the variables that uv itself reads.
const defaultIndex = "https://pypi.org/simple"

// A wheel is a file of the package index with its only valid content.
type wheel struct {
	File   string
	SHA256 string
}

// uvWheel is the pinned wheel for an architecture.
func uvWheel(arch string) (wheel, error) {
	switch arch {
	case "amd64":
		return wheel{
			File:   "uv-" + uvVersion + "-py3-none-musllinux_1_1_x86_64.whl",
			SHA256: "2c45530751517d6c3bbc69a19473f6effe47cce047bede01ffd8af7ea7b36b25",
		}, nil
	case "arm64":
		return wheel{
			File:   "uv-" + uvVersion + "-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl",
			SHA256: "5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe",
		}, nil
	}
	return wheel{}, fmt.Errorf("there is no pinned uv for %s; put uv %s or newer into the search path", arch, uvVersion)
}

// uvInPath is the uv of the host, "" when there is none. Whether it runs
// inside a root file system shows only there.
func (s *Store) uvInPath() string {
	for _, dir := range filepath.SplitList(s.environ.get("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(dir, "uv")); err == nil {
			return found
		}
	}
	return ""
}

// fetchUV makes sure that the pinned uv is in the cache and returns its path.
func (s *Store) fetchUV(ctx context.Context, report func(string, int64, int64)) (string, error) {
	want, err := uvWheel(runtime.GOARCH)
	if err != nil {
		return "", err
	}
	binary := s.cache("tools", "uv-"+uvVersion+"-"+runtime.GOARCH)
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	index := defaultIndex
	for _, key := range []string{"UV_INDEX_URL", "UV_DEFAULT_INDEX"} {
		if value := s.environ.get(key); value != "" {
			index = value
		}
	}
	f := fetcher{client: &http.Client{Timeout: 10 * time.Minute}, report: report}
	if err := f.install(ctx, index, want, binary); err != nil {
		return "", fmt.Errorf("fetch uv %s: %w; or install uv yourself and put it into the search path", uvVersion, err)
	}
	return binary, nil
}

// A fetcher downloads one tool out of a wheel of a package index.
type fetcher struct {
	client *http.Client
	report func(message string, done, total int64)
}

// install downloads a wheel, checks it, and puts the binary in it at target.
func (f fetcher) install(ctx context.Context, index string, want wheel, target string) error {
	address, err := f.locate(ctx, index, want)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(target), "wheel-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // a leftover in the cache is harmless
	size, err := f.download(ctx, address, want, file)
	if err == nil {
		err = extractBinary(file, size, target)
	}
	return errors.Join(err, file.Close())
}

// locate asks the index (PEP 691) for the address of a file.
func (f fetcher) locate(ctx context.Context, index string, want wheel) (*url.URL, error) {
	page, err := url.Parse(strings.TrimSuffix(index, "/") + "/uv/")
	if err != nil {
		return nil, fmt.Errorf("the package index %q: %w", index, err)
	}
	response, err := f.get(ctx, page.String(), "application/vnd.pypi.simple.v1+json")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // read to its end or given up
	var listing struct {
		Files []struct {
			Filename string `json:"filename"`
			URL      string `json:"url"`
		} `json:"files"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxIndexPage)).Decode(&listing); err != nil {
		return nil, fmt.Errorf("read the package index: %w", err)
	}
	for _, file := range listing.Files {
		if file.Filename == want.File {
			address, err := page.Parse(file.URL)
			if err != nil {
				return nil, fmt.Errorf("the package index names a wrong address: %w", err)
			}
			return address, nil
		}
	}
	return nil, fmt.Errorf("the package index has no %s", want.File)
}

// download writes a file's content to out and checks its hash.
func (f fetcher) download(ctx context.Context, address *url.URL, want wheel, out io.Writer) (int64, error) {
	response, err := f.get(ctx, address.String(), "*/*")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // read to its end or given up
	hash := sha256.New()
	counted := &countingWriter{total: response.ContentLength, report: f.report}
	size, err := io.Copy(io.MultiWriter(out, hash, counted), io.LimitReader(response.Body, maxUVWheel+1))
	if err != nil {
		return 0, fmt.Errorf("download %s: %w", want.File, err)
	}
	if size > maxUVWheel {
		return 0, fmt.Errorf("download %s: it is larger than %d bytes", want.File, maxUVWheel)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want.SHA256 {
		return 0, fmt.Errorf("download %s: its SHA-256 is %s, not %s: it was tampered with or damaged on the way", want.File, got, want.SHA256)
	}
	return size, nil
}

func (f fetcher) get(ctx context.Context, address, accept string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	response, err := f.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s answered %s", request.URL.Redacted(), response.Status), response.Body.Close())
	}
	return response, nil
}

// extractBinary unzips the one binary of a checked wheel to target, in one step.
func extractBinary(file io.ReaderAt, size int64, target string) error {
	archive, err := zip.NewReader(file, size)
	if err != nil {
		return fmt.Errorf("open the wheel: %w", err)
	}
	member, err := archive.Open(uvMember)
	if err != nil {
		return fmt.Errorf("open the wheel: %w", err)
	}
	defer member.Close() //nolint:errcheck // only read
	out, err := os.CreateTemp(filepath.Dir(target), "binary-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) //nolint:errcheck // gone after the rename
	_, err = io.Copy(out, io.LimitReader(member, maxUVBinary))
	if err := errors.Join(err, out.Chmod(0o755), out.Close()); err != nil {
		return fmt.Errorf("unpack the wheel: %w", err)
	}
	return os.Rename(out.Name(), target)
}

// countingWriter reports how much of a download has come.
type countingWriter struct {
	done, total int64
	report      func(string, int64, int64)
}

// Write implements io.Writer.
func (c *countingWriter) Write(p []byte) (int, error) {
	c.done += int64(len(p))
	if c.report != nil {
		c.report("downloading uv "+uvVersion, c.done, c.total)
	}
	return len(p), nil
}
