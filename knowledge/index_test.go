package knowledge_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/knowledge"
	"github.com/planbot-go/planbot/state"
)

func TestNewIndex(t *testing.T) {
	t.Parallel()
	_, err := knowledge.NewIndex(knowledge.IndexConfig{Name: "A b", Hybrid: true, Floor: math.NaN()})
	for _, want := range []string{"no Store", "Name", "Hybrid needs", "Floor"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.Search(t.Context(), knowledge.Query{Text: "x", Caller: everyone}); !errors.Is(err, knowledge.ErrNotBuilt) {
		t.Errorf("an index that was never built: %v", err)
	}
	b.add(map[string]string{
		"1.txt": "vacation days employees get thirty days", "2.txt": "sick leave report on the first day",
		"3.txt": "expense report within thirty days", "4.txt": "parking garage level two",
	})
	for query, want := range map[string]string{
		"thirty days":      "1.txt#1 1.5976, 3.txt#1 1.4398",
		"REPORT":           "3.txt#1 0.7199, 2.txt#1 0.6236",
		"first day report": "2.txt#1 2.7898, 3.txt#1 0.7199",
		"bicycle":          "",
		"?!":               "",
	} {
		for name, x := range map[string]*knowledge.Index{"the one that added": b.Index, "another process": b.index(knowledge.IndexConfig{})} {
			passages, err := x.Search(t.Context(), knowledge.Query{Text: query, Caller: everyone})
			var got []string
			for _, p := range passages {
				got = append(got, fmt.Sprintf("%s %.4f", strings.TrimPrefix(p.ID, "handbook/"), p.Score))
			}
			if strings.Join(got, ", ") != want || err != nil {
				t.Errorf("%s: %s: %q, %v; want %s", name, query, got, err, want)
			}
		}
	}
}

// TestManyOfOneDocument: a document of which many passages fit better hides no other, by words and by meaning.
func TestManyOfOneDocument(t *testing.T) {
	t.Parallel()
	long := ""
	for i := range 200 {
		long += fmt.Sprintf("# Part %d\n\ntravel travel travel\n\n", i)
	}
	for name, cfg := range map[string]knowledge.IndexConfig{
		"words": {}, "vectors": {Embedder: &embedder{model: "A", dimensions: 26}}, "both": {Embedder: &embedder{model: "A", dimensions: 26}, Hybrid: true},
	} {
		b := setup(t)
		b.Index = b.index(cfg)
		b.add(map[string]string{"a.md": long, "b.txt": "travel between the other offices is booked by the assistant of each team"})
		passages, err := b.Search(t.Context(), knowledge.Query{Text: "travel", Caller: everyone})
		of := map[string]int{}
		for _, p := range passages {
			of[p.Document]++
		}
		if err != nil || len(passages) != 4 || of["handbook/a.md"] != 3 || of["handbook/b.txt"] != 1 {
			t.Errorf("%s: %v, %v", name, of, err)
		}
	}
}

// TestFoundByTitle: the words of a title find each passage of its document.
func TestFoundByTitle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.add(map[string]string{"a.md": "---\ntitle: Sabbatical\n---\n# Who\n\nEverybody.\n\n# When\n\nIn spring.", "b.txt": "spring"})
	if got := b.found(everyone, "sabbatical"); got != "a.md#1 a.md#2" {
		t.Errorf("found %q", got)
	}
}

func TestPassage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.files(map[string]string{"hr/leave.md": "---\ntitle: Leave\nurl: https://wiki.test/leave\nupdated: 2026-01-31\n---\n# Vacation\n\n## Days\n\nThirty days."})
	b.files(map[string]string{"it.md": "# Computers\n\nThirty programs."})
	f := b.folder()
	f.URL = "https://docs.test/all"
	if _, err := b.Add(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	got, err := b.Search(t.Context(), knowledge.Query{Text: "thirty", Caller: everyone})
	for i := range got {
		got[i].Score = 0
	}
	want := []knowledge.Passage{
		{ID: "handbook/it.md#1", Document: "handbook/it.md", Title: "Computers", URL: "https://docs.test/all/it.md", Path: "Computers", Text: "Thirty programs."},
		{
			ID: "handbook/hr/leave.md#1", Document: "handbook/hr/leave.md", Title: "Leave", URL: "https://wiki.test/leave",
			Path: "Vacation › Days", Text: "Thirty days.", Updated: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	b.files(map[string]string{"a%20b.md": "zebra", "100% sure/c#d.md": "zebra"})
	if _, err := b.Add(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	got, err = b.Search(t.Context(), knowledge.Query{Text: "zebra", Caller: everyone})
	if err != nil || len(got) != 2 || got[0].URL != "https://docs.test/all/100%25%20sure/c%23d.md" || got[1].URL != "https://docs.test/all/a%2520b.md" {
		t.Errorf("addresses of odd names: %+v, %v", got, err)
	}
	if got, err := b.Search(t.Context(), knowledge.Query{Text: "vacation thirty", Caller: everyone, Limit: 1}); err != nil || len(got) != 1 || got[0].Title != "Leave" {
		t.Errorf("by the words of a heading: %v, %v", got, err)
	}
}

// TestAddAgain: what has not changed is not read, embedded or counted again.
func TestAddAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := &embedder{model: "A", dimensions: 26}
	b.Index = b.index(knowledge.IndexConfig{Embedder: e})
	if report := b.add(map[string]string{"a.txt": "apples", "b.txt": "bananas", "c.txt": "cherries"}); report.String() != "3 added" || report.Embedded != 3 {
		t.Errorf("%s, %d embedded", report, report.Embedded)
	}
	e.hook = func() {
		if got := b.found(everyone, "bananas"); !strings.HasPrefix(got, "b.txt#1") {
			t.Errorf("while the folder is added: %q", got)
		}
		if got := found(t, b.index(knowledge.IndexConfig{Embedder: e.quiet()}), everyone, "cherries"); !strings.HasPrefix(got, "c.txt#1") {
			t.Errorf("in another process, while the folder is added: %q", got)
		}
	}
	report := b.add(map[string]string{"b.txt": "blueberries", "c.txt": ""})
	if report.String() != "1 changed, 1 removed, 1 kept" || report.Embedded != 1 {
		t.Errorf("%s, %d embedded", report, report.Embedded)
	}
	documents, err := b.List(t.Context())
	if len(documents) != 2 || documents[0].ID != "handbook/a.txt" || documents[1].Chunks != 1 || !documents[1].Readable || err != nil {
		t.Errorf("%v, %v", documents, err)
	}
	calls := e.calls
	if report = b.add(nil); report.String() != "2 kept" || e.calls != calls {
		t.Errorf("nothing changed: %s, %d more calls", report, e.calls-calls)
	}
}

// TestRightsChangeWhileASearchRuns: nobody is shown what they may not read any more when the search ends.
func TestRightsChangeWhileASearchRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := &embedder{model: "A", dimensions: 26}
	b.Index = b.index(knowledge.IndexConfig{Embedder: e})
	b.add(map[string]string{"a.txt": "apples", "b.txt": "bananas"})
	f := b.folder()
	f.Access = []string{"person:p1"}
	e.hook = func() { // while the question is embedded
		if _, err := b.Add(t.Context(), f); err != nil {
			t.Error(err)
		}
	}
	if got := b.found(everyone, "apples"); got != "" {
		t.Errorf("found %q", got)
	}
	if got := b.found(person("p1"), "apples"); !strings.HasPrefix(got, "a.txt#1") {
		t.Errorf("who may read it finds %q", got)
	}
}

func TestFolderShrinks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	files, none := map[string]string{}, map[string]string{}
	for i := range 10 {
		files[fmt.Sprintf("%d.txt", i)], none[fmt.Sprintf("%d.txt", i)] = fmt.Sprint("word", i), ""
	}
	b.add(files)
	b.files(none)
	if _, err := b.Add(t.Context(), b.folder()); !errors.Is(err, knowledge.ErrShrinks) {
		t.Errorf("an empty folder: %v", err)
	}
	if got := b.found(everyone, "word7"); got != "7.txt#1" {
		t.Errorf("after that: %q", got)
	}
	f := b.folder()
	f.Shrink = true
	if report, err := b.Add(t.Context(), f); err != nil || report.String() != "10 removed" {
		t.Errorf("with the flag: %s, %v", report, err)
	}
	if got := b.found(everyone, "word7"); got != "" {
		t.Errorf("emptied, and finds %q", got)
	}
	b.add(files)
	b.files(map[string]string{"0.txt": "", "1.txt": "", "2.txt": ""})
	if report, err := b.Add(t.Context(), b.folder()); err != nil || report.String() != "3 removed, 7 kept" {
		t.Errorf("3 of 10: %s, %v", report, err)
	}
	b.files(map[string]string{"3.txt": "", "4.txt": "", "5.txt": ""})
	if _, err := b.Add(t.Context(), b.folder()); !errors.Is(err, knowledge.ErrShrinks) {
		t.Errorf("3 of 7: %v", err)
	}
	if err := os.RemoveAll(b.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Add(t.Context(), b.folder()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

func TestFoldersAreApart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.add(map[string]string{"a.txt": "apples", "sub/b.txt": "bananas"})
	one := filepath.Join(t.TempDir(), "cherries.txt")
	if err := os.WriteFile(one, []byte("cherries and apples"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := knowledge.Folder{Path: one, Access: []string{"person:p1"}}
	for _, want := range []string{"1 added", "1 kept"} {
		if report, err := b.Add(t.Context(), f); err != nil || report.String() != want {
			t.Errorf("one file: %s, %v; want %s", report, err, want)
		}
	}
	if got := b.found(person("P1"), "apples"); got != "a.txt#1 cherries.txt#1" {
		t.Errorf("found %q", got)
	}
	for name, want := range map[string]int{"nothing": 0, "handbook/a.txt": 1, "cherries.txt": 1} {
		if n, err := b.Remove(t.Context(), name); n != want || err != nil {
			t.Errorf("remove %s: %d, %v", name, n, err)
		}
	}
	if got := b.found(person("p1"), "apples bananas cherries"); got != "sub/b.txt#1" {
		t.Errorf("afterwards: %q", got)
	}
	for name, f := range map[string]knowledge.Folder{
		"no Access":   {Path: b.dir},
		"is no right": {Path: b.dir, Access: []string{"everybody"}},
		"no Path":     {Access: f.Access},
		"name of a":   {Path: b.dir, Access: f.Access, Name: "a/b"},
		"https":       {Path: b.dir, Access: f.Access, URL: "http://x.test"},
	} {
		if _, err := b.Add(t.Context(), f); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTakesOnlyFiles: links, hidden files and whatever else is in a folder is named and not read.
func TestTakesOnlyFiles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	secret := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.files(map[string]string{"a.txt": "apples", ".hidden": "hidden", ".git/x": "hidden", "large.txt": strings.Repeat("large ", 4<<20), "long.txt": strings.Repeat("l ", 1_000_001)})
	for link, to := range map[string]string{"out.txt": secret, "in.txt": "a.txt", "folder": filepath.Dir(secret)} {
		if err := os.Symlink(to, filepath.Join(b.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	report, err := b.Add(t.Context(), b.folder())
	if err != nil || report.String() != "1 added, 7 not taken" {
		t.Errorf("%s, %v", report, err)
	}
	var why []string
	for _, n := range report.NotTaken {
		why = append(why, n.File+" "+n.Why)
	}
	want := []string{
		".git is a hidden folder", ".hidden is hidden", "folder is a symbolic link, which is not followed", "in.txt is a symbolic link, which is not followed",
		"large.txt is larger than 20 MB", "long.txt has more than 2 million characters of text", "out.txt is a symbolic link, which is not followed",
	}
	if diff := cmp.Diff(want, why); diff != "" {
		t.Error(diff)
	}
}

// TestRemoveOfWhatWasNotTaken: nobody reads of its files any more.
func TestRemoveOfWhatWasNotTaken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.add(map[string]string{"a.txt": " "})
	if files, err := b.NotTaken(t.Context()); len(files) != 1 || err != nil {
		t.Fatal(files, err)
	}
	if n, err := b.Remove(t.Context(), "handbook"); n != 0 || err != nil {
		t.Error(n, err)
	}
	if files, err := b.NotTaken(t.Context()); len(files) != 0 || err != nil {
		t.Error(files, err)
	}
}

// TestSwap: other processes have a new generation within five seconds, and an old one leaves nothing.
func TestSwap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		store, err := state.Open(t.Context(), "", state.Config{TTL: 90 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		b.store = store
		b.Index = b.index(knowledge.IndexConfig{})
		b.add(map[string]string{"a.txt": "apples"})
		other, searching := b.index(knowledge.IndexConfig{}), b.index(knowledge.IndexConfig{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); other.Run(ctx) }()
		time.Sleep(time.Minute)
		_ = found(t, searching, everyone, "apples")
		b.add(map[string]string{"a.txt": "pears"})
		time.Sleep(5 * time.Second)
		for name, x := range map[string]*knowledge.Index{"one that runs": other, "one that only searches": searching} {
			if got := found(t, x, everyone, "pears") + ", " + found(t, x, everyone, "apples"); got != "a.txt#1, " {
				t.Errorf("%s finds %q", name, got)
			}
		}
		// The store forgets what nobody uses for 90 minutes. The process that runs the index uses it.
		time.Sleep(3 * time.Hour)
		if got := found(t, b.index(knowledge.IndexConfig{}), everyone, "pears"); got != "a.txt#1" {
			t.Errorf("after three hours: %q", got)
		}
		stop()
		<-done
		time.Sleep(3 * time.Hour)
		if _, err := b.index(knowledge.IndexConfig{}).Search(t.Context(), knowledge.Query{Text: "pears", Caller: everyone}); !errors.Is(err, knowledge.ErrNotBuilt) {
			t.Errorf("an index that nobody uses: %v", err)
		}
	})
}

func TestOldGenerationsGo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := miniredis.RunT(t)
	store, err := state.Open(t.Context(), "redis://"+server.Addr(), state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	b.store = store
	b.Index = b.index(knowledge.IndexConfig{})
	b.add(map[string]string{"a.txt": "apples"})
	before := len(server.Keys())
	for i := range 5 {
		b.add(map[string]string{"a.txt": fmt.Sprint("apples", i)})
	}
	if after := server.Keys(); before != 2 || len(after) != 2 {
		t.Errorf("%d keys before, after that %q", before, after)
	}
	// A part that is gone is an error for those who search, and not for those who add.
	for _, key := range server.Keys() {
		if strings.Contains(key, "/blocks/") {
			server.Del(key)
		}
	}
	b.Index = b.index(knowledge.IndexConfig{})
	if _, err := b.Search(t.Context(), knowledge.Query{Text: "apples4", Caller: everyone}); err == nil {
		t.Error("found something in an index that is gone")
	}
	if report := b.add(nil); report.String() != "1 added" || b.found(everyone, "apples4") != "a.txt#1" {
		t.Errorf("added again: %s", report)
	}
}

// TestAddAtOnce: of two processes that add at the same time, one is told that it was overtaken.
func TestAddAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.files(map[string]string{"a.txt": "apples"})
	e := &embedder{model: "A", dimensions: 26}
	slow := b.index(knowledge.IndexConfig{Embedder: e})
	e.hook = func() {
		if _, err := b.index(knowledge.IndexConfig{Embedder: e.quiet()}).Add(t.Context(), b.folder()); err != nil {
			t.Error(err)
		}
		b.files(map[string]string{"a.txt": "pears"})
	}
	if _, err := slow.Add(t.Context(), b.folder()); !errors.Is(err, state.ErrConflict) {
		t.Errorf("the slower one: %v", err)
	}
	if got := found(t, b.index(knowledge.IndexConfig{Embedder: e.quiet()}), everyone, "apples"); got != "a.txt#1" {
		t.Errorf("found %q", got)
	}
}

// TestLargeGeneration: a generation has many blocks, of the size that the store takes.
func TestLargeGeneration(t *testing.T) {
	t.Parallel()
	store, err := state.Open(t.Context(), "", state.Config{MaxBytes: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	b := setup(t)
	b.store = store
	b.Index = b.index(knowledge.IndexConfig{})
	files := map[string]string{}
	for i := range 60 {
		var text strings.Builder
		for j := range 100 {
			fmt.Fprintf(&text, "%x ", (i+1)*(j+7)*104729)
		}
		files[fmt.Sprintf("%d.txt", i)] = text.String() + fmt.Sprint("number", i)
	}
	b.add(files)
	if got := found(t, b.index(knowledge.IndexConfig{}), everyone, "number47"); !strings.HasPrefix(got, "47.txt#") {
		t.Errorf("found %q", got)
	}
}
