package environment

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeIndex serves one wheel the way a package index does.
func fakeIndex(t *testing.T, file string, content []byte) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /simple/uv/", func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept"), "pypi.simple.v1+json") {
			http.Error(w, "only JSON here", http.StatusNotAcceptable)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"files": []map[string]string{
			{"filename": "uv-0.0.1.tar.gz", "url": "nowhere"},
			{"filename": file, "url": "../../files/" + file},
		}})
	})
	mux.HandleFunc("GET /files/"+file, func(w http.ResponseWriter, _ *http.Request) { w.Write(content) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/simple"
}

func fakeWheel(t *testing.T, member, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	w, err := archive.Create(member)
	must(t, err)
	_, err = w.Write([]byte(content))
	must(t, err)
	must(t, archive.Close())
	return out.Bytes()
}

func TestFetchTool(t *testing.T) {
	good := fakeWheel(t, uvMember, "binary")
	hash := func(content []byte) string {
		sum := sha256.Sum256(content)
		return hex.EncodeToString(sum[:])
	}
	other := fakeWheel(t, "something/else", "binary")
	for name, tt := range map[string]struct {
		served []byte
		want   wheel
		err    string
	}{
		"good":              {good, wheel{"uv.whl", hash(good)}, ""},
		"another hash":      {good, wheel{"uv.whl", hash(other)}, "tampered"},
		"not in the index":  {good, wheel{"uv-9.whl", hash(good)}, "has no uv-9.whl"},
		"without the tool":  {other, wheel{"uv.whl", hash(other)}, "open the wheel"},
		"not a wheel":       {[]byte("text"), wheel{"uv.whl", hash([]byte("text"))}, "open the wheel"},
		"larger than bound": {make([]byte, maxUVWheel+1), wheel{"uv.whl", ""}, "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			index := fakeIndex(t, "uv.whl", tt.served)
			dir := t.TempDir()
			target := filepath.Join(dir, "tools", "uv")
			err := fetcher{client: http.DefaultClient}.install(t.Context(), index, tt.want, target)
			if tt.err == "" {
				must(t, err)
				content, err := os.ReadFile(target)
				must(t, err)
				if info, err := os.Stat(target); err != nil || info.Mode() != 0o755 || string(content) != "binary" {
					t.Errorf("the tool: %v %v %q", info, err, content)
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want %q", err, tt.err)
			}
			left, err := os.ReadDir(filepath.Join(dir, "tools"))
			if err == nil && (len(left) > 1 || tt.err != "" && len(left) > 0) {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestFetchToolRefused(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	err := fetcher{client: server.Client()}.install(t.Context(), server.URL, wheel{"uv.whl", ""}, filepath.Join(t.TempDir(), "uv"))
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v, want the server's status", err)
	}
}
