package environment

import "testing"

func TestSpecifiers(t *testing.T) {
	for text, versions := range map[string]map[string]bool{
		"":              {"3.13.5": true},
		">=3.11":        {"3.11.0": true, "3.10.9": false, "3.13.5": true, "4.0": true},
		">=3.10,<3.13":  {"3.12.9": true, "3.13.0": false},
		"==3.13.*":      {"3.13.5": true, "3.14.0rc2": false},
		"== 3.13.5":     {"3.13.5": true, "3.13.6": false},
		"!=3.13.*":      {"3.13.5": false, "3.12.0": true},
		"~=3.11":        {"3.13.5": true, "4.0.0": false, "3.10.0": false},
		"~=3.13.2":      {"3.13.5": true, "3.14.0": false, "3.13.1": false},
		"<3.9":          {"3.13.5": false, "3.8.1": true},
		">3.13, <=3.14": {"3.13.5": true, "3.14": true, "3.14.1": false},
	} {
		clauses, err := parseSpecifiers(text)
		must(t, err)
		for version, want := range versions {
			got := true
			for _, clause := range clauses {
				got = got && clause.allows(version)
			}
			if got != want {
				t.Errorf("%q allows %s: %v, want %v", text, version, got, want)
			}
		}
	}
	for _, text := range []string{"3.11", "=3.11", ">=x", ">=3.11.*", "~=3", ">=3.11 or so"} {
		if _, err := parseSpecifiers(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
