package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/biocypher/biocage-mcp"
)

// A source is one Go file that is not a test.
type source struct {
	pkg  string // relative to the module, "." for the program
	path string
	file *ast.File
	set  *token.FileSet
}

// sources parses the module's Go files but for tests, examples, and the
// programs that only tests and builds use.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	set := token.NewFileSet()
	walk(t, ".go", func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		file, err := parser.ParseFile(set, filepath.Join(root, path), nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, source{pkg: filepath.Dir(path), path: path, file: file, set: set})
	})
	if len(all) < 50 {
		t.Fatalf("only %d files were found", len(all))
	}
	return all
}

// walk visits the project's own files with an ending.
func walk(t *testing.T, extension string, visit func(path string)) {
	t.Helper()
	skipped := []string{"bin", "build", "testdata", "examples", "test", "scripts", "genseccomp", "node_modules", "venv"}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || slices.Contains(skipped, name)):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != extension || name == "deps_tmp.go":
			return nil
		}
		relative, err := filepath.Rel(root, path)
		if err == nil {
			visit(relative)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// function names the function that encloses pos: Name or (*Type).Name.
func (s source) function(pos token.Pos) string {
	for _, decl := range s.file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || pos < f.Pos() || pos > f.End() {
			continue
		}
		if f.Recv == nil {
			return f.Name.Name
		}
		receiver := f.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		if name, ok := receiver.(*ast.Ident); ok {
			return name.Name + "." + f.Name.Name
		}
	}
	return "?"
}
