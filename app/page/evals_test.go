package page_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/app/page"
)

// report is what bottest eval --json prints, with one plan for each case.
func report(about string, right ...bool) string {
	type result struct {
		Case     string   `json:"case"`
		Plan     []string `json:"plan"`
		Valid    bool     `json:"valid"`
		Action   bool     `json:"action"`
		Entities bool     `json:"entities"`
	}
	var results []result
	n := 0
	for i, is := range right {
		name, plan := fmt.Sprintf("case %d", i), fmt.Sprintf("addItem %v", is)
		if about == hostile {
			name, plan = name+hostile, plan+hostile+strings.Repeat("G", 1<<20)
		}
		results = append(results, result{name, []string{plan}, true, is, is})
		if is {
			n++
		}
	}
	raw, err := json.Marshal(map[string]any{"asked": len(right), "of": len(right), "sides": []any{map[string]any{
		"name": "a", "about": about, "results": results, "all": map[string]any{"asked": len(right), "valid": 1, "action": .5, "entities": float64(n) / float64(len(right)), "tokens": 120.4, "p50": .25},
	}}})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func TestEvals(t *testing.T) {
	t.Parallel()
	dir := folderWith(t, map[string]string{
		"first.json": report("small", true, false, false, true), "second.json": report("small", true, true, true, false), "other.json": report(hostile, true, true), "worse.json": report(hostile, false, false),
		"broken.json": `{"sides":`, "foreign.json": `{"x":1}`, "notes.txt": "x", "big.json": `{"sides":[{"about":"` + strings.Repeat("F", 9<<20) + `"}]}`, "dir.json/x": "x",
	})
	for i, name := range []string{"worse.json", "first.json", "second.json", "other.json"} {
		at := time.Date(2026, 11, 1+i, 12, 0, 0, 0, time.UTC)
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	c := setup(t, set{parts: page.Parts{Evals: dir}})
	var seen struct {
		Version int
		Reports []struct {
			ID, About string
			Asked, Of int
			Entities  float64
			Since     *int
		}
		Faults     []string
		Comparison *struct {
			Better, Worse, Same, OnlyA, OnlyB int
			Differs                           []struct{ Case string }
		}
	}
	if err := json.Unmarshal([]byte(c.get("/dev/evals.json?a=first.json/1&b=second.json/1")), &seen); err != nil || seen.Version != 1 {
		t.Fatal(err, seen.Version)
	}
	if len(seen.Reports) != 4 || seen.Reports[0].ID != "other.json/1" || seen.Reports[1].ID != "second.json/1" || seen.Reports[2].ID != "first.json/1" {
		t.Fatalf("the reports: %+v", seen.Reports)
	}
	if seen.Reports[2].Since != nil || seen.Reports[3].Since != nil || seen.Reports[1].Since == nil || *seen.Reports[1].Since != 25 {
		t.Errorf("what changed since the one before: %+v", seen.Reports)
	}
	faults := strings.Join(seen.Faults, "\n")
	for _, want := range []string{"broken.json: it is no report", "foreign.json: it is no report", "big.json: it has more than 8 MiB"} {
		if !strings.Contains(faults, want) {
			t.Errorf("the faults lack %q: %s", want, faults)
		}
	}
	if d := seen.Comparison; d == nil || d.Better != 2 || d.Worse != 1 || d.Same != 1 || d.OnlyA+d.OnlyB != 0 || len(d.Differs) != 3 || d.Differs[0].Case != "case 3" {
		t.Errorf("the comparison: %+v", d)
	}
	body := c.get("/dev/evals?a=first.json/1&b=second.json/1")
	noScript(t, body)
	for _, want := range []string{`data-report="second.json/1"`, "+25 points", `data-better="2" data-worse="1"`, "wrong actions", `<option value="first.json/1" selected>`} {
		if !strings.Contains(body, want) {
			t.Errorf("the view lacks %q", want)
		}
	}
	body = c.get("/dev/evals?a=other.json/1&b=worse.json/1")
	if noScript(t, body); !strings.Contains(body, `data-better="0" data-worse="2"`) {
		t.Error("the hostile reports are not compared")
	}
	if body := c.get("/dev/evals?a=../../etc/passwd&b=first.json/1"); strings.Contains(body, "data-better") {
		t.Error("it compares what is not there")
	}
}

func TestEvalsWithoutReports(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "evals")
	c := setup(t, set{parts: page.Parts{Evals: missing}})
	if body := c.get("/dev/evals"); !strings.Contains(body, "There is no report yet") || !strings.Contains(body, missing) {
		t.Error("the view does not say where reports go")
	}
}

// TestEvalsWithoutEnd reads a folder of far too much.
func TestEvalsWithoutEnd(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	right := make([]bool, 700)
	for i := range 120 {
		files[fmt.Sprintf("r%03d.json", i)] = report("x", false)
	}
	files["y.json"] = report("x", right...)
	for i := range right {
		right[i] = true
	}
	files["z.json"] = report("x", right...)
	dir := folderWith(t, files)
	newest := time.Now().Add(time.Hour)
	for _, name := range []string{"y.json", "z.json"} {
		if err := os.Chtimes(filepath.Join(dir, name), newest, newest); err != nil {
			t.Fatal(err)
		}
	}
	c := setup(t, set{parts: page.Parts{Evals: dir}})
	var seen struct {
		Reports    []struct{ ID string }
		Faults     []string
		Comparison struct {
			Differs []any
			More    int
		}
	}
	if err := json.Unmarshal([]byte(c.get("/dev/evals.json")), &seen); err != nil || len(seen.Reports) != 100 || len(seen.Faults) != 1 {
		t.Fatal(err, len(seen.Reports), seen.Faults)
	}
	if err := json.Unmarshal([]byte(c.get("/dev/evals.json?a=y.json/1&b=z.json/1")), &seen); err != nil || len(seen.Comparison.Differs) != 500 || seen.Comparison.More != 200 {
		t.Error(err, len(seen.Comparison.Differs), seen.Comparison.More)
	}
}
