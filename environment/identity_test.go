package environment

import "testing"

// TestIdentity: the id changes with everything that changes the content, and
// with nothing else.
func TestIdentity(t *testing.T) {
	id := func(change func(*build, *base, *[]byte)) string {
		b := &build{request: BuildRequest{Name: "a"}, source: source{project: project{Apt: []string{"x"}, Preload: []string{"y"}}}}
		found, lock := base{Kind: BaseDebootstrap, Ref: "trixie", Digest: "d"}, []byte("lock")
		change(b, &found, &lock)
		got, err := b.identity(found, lock)
		must(t, err)
		if len(got) != 64 {
			t.Fatalf("the id is %q", got)
		}
		return got
	}
	plain := id(func(*build, *base, *[]byte) {})
	for name, tt := range map[string]struct {
		change func(*build, *base, *[]byte)
		same   bool
	}{
		"the name":       {func(b *build, _ *base, _ *[]byte) { b.request.Name = "b" }, true},
		"the base's tag": {func(_ *build, f *base, _ *[]byte) { f.Ref = "other" }, true},
		"the base":       {func(_ *build, f *base, _ *[]byte) { f.Digest = "e" }, false},
		"the kind":       {func(_ *build, f *base, _ *[]byte) { f.Kind = BaseDocker }, false},
		"the lock":       {func(_ *build, _ *base, l *[]byte) { *l = []byte("lock2") }, false},
		"the packages":   {func(b *build, _ *base, _ *[]byte) { b.source.project.Apt = nil }, false},
		"the preload":    {func(b *build, _ *base, _ *[]byte) { b.source.project.Preload = []string{"z"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := id(tt.change); (got == plain) != tt.same {
				t.Errorf("the id: %s, without the change: %s", got, plain)
			}
		})
	}
}
