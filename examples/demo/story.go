package main

// A step is one call of the story and what its answer must be.
type step struct {
	title string
	tool  string
	args  map[string]any
	want  []check
}

// code is a step of python_run.
func code(title, source string, want ...check) step {
	return step{title: title, tool: "python_run", args: map[string]any{"code": source}, want: want}
}

const (
	tablePath   = "/data/penguins.csv"
	figureName  = "penguins.png"
	summaryName = "summary.csv"
)

// story is what a model does with a table that it has never seen, step by
// step. Each relies on the state that the earlier ones left.
func (t *tour) story() []step {
	steps := t.explore()
	steps = append(steps, t.deliver()...)
	return append(steps, t.survive()...)
}

func (t *tour) explore() []step {
	return []step{
		{
			title: "Expose the table to the sandbox",
			tool:  "file_expose",
			args:  map[string]any{"host_path": t.table()},
			want:  []check{fine, exposed(tablePath, "ro")},
		},
		code("Load it into a data frame", `import pandas as pd

penguins = pd.read_csv("/data/penguins.csv")
penguins.shape`, ran, value("(344, 8)")),
		code("Analyse it: the data frame is still there", `mass = penguins.groupby("species")["body_mass_g"]
mass.agg(["count", "mean", "std"]).round(1)`,
			ran, tells("Adelie", "3700.7", "Chinstrap", "3733.1", "Gentoo", "5076.0", "504.1")),
		code("A mistake", `complete = penguins.dropna()
complete.groupby("species")["flipper_length"].mean()`, fails("exception", 1, "KeyError")),
		code("Corrected after the hint", `complete.groupby("species")["flipper_length_mm"].mean().round(1).to_dict()`,
			ran, value("{'Adelie': 190.1, 'Chinstrap': 195.8, 'Gentoo': 217.2}")),
	}
}

func (t *tour) deliver() []step {
	return []step{
		code("A figure", `import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7, 4.5))
for species, group in complete.groupby("species"):
    ax.scatter(group["flipper_length_mm"], group["body_mass_g"], s=18, alpha=0.7, label=species)
ax.set(title="Penguins of the Palmer Archipelago", xlabel="flipper length (mm)", ylabel="body mass (g)")
ax.legend()
plt.show()`, ran, saveImage(t.opts.out, figureName)),
		code("A result file", `summary = (
    complete.groupby(["species", "sex"])[["body_mass_g", "flipper_length_mm"]]
    .agg("mean").round(1).reset_index()
)
summary.to_csv("summary.csv", index=False, lineterminator="\n")
len(summary)`, ran, value("6"), hands(summaryName)),
		{
			title: "Hand the file back",
			tool:  "file_read",
			args:  map[string]any{"path": summaryName},
			want: []check{fine, saveContent(t.opts.out, summaryName,
				"species,sex,body_mass_g,flipper_length_mm", "Gentoo,male,5484.8,221.5")},
		},
	}
}

func (t *tour) survive() []step {
	endless := code("Code that never ends meets its time limit", "while True:\n    penguins.sort_values(\"body_mass_g\")",
		fails("timeout", 124))
	endless.args["timeout_seconds"] = 1
	return []step{
		endless,
		code("The state survived it", `len(penguins), len(complete)`, ran, value("(344, 333)")),
		code("No way out: there is no network", `import socket

socket.create_connection(("192.0.2.1", 80), timeout=2)`, fails("exception", 1, "OSError")),
		code("No way out: the table is read-only", `open("/data/penguins.csv", "w")`,
			fails("exception", 1, "OSError", "PermissionError")),
		{
			title: "No way in: only what the configuration allows is exposed",
			tool:  "file_expose",
			args:  map[string]any{"host_path": "/etc/passwd"},
			want:  []check{refused("/etc/passwd")},
		},
		{
			title: "Describe the session",
			tool:  "session_info",
			args:  map[string]any{},
			want:  []check{fine, knows("penguins", "DataFrame"), tells(tablePath), t.remember},
		},
		{
			title: "Start afresh",
			tool:  "session_reset",
			args:  map[string]any{},
			want:  []check{fine, t.remember},
		},
		code("Nothing is left of the old state", `"penguins" in globals()`, ran, value("False")),
	}
}
