package app

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/planbot-go/planbot/internal/cli"
)

// TestKnowledgeCommands: an operator adds documents, and everything else sees them.
func TestKnowledgeCommands(t *testing.T) {
	t.Parallel()
	redis := "--redis-url=redis://" + miniredis.RunT(t).Addr()
	dir := skillTree(t, map[string]string{
		"hb/leave.md": "# Leave\n\nThirty days of vacation.", "hb/bonus.md": "---\naccess: person:anna\n---\n# Bonus\n\nEight per cent.",
		"more/parking.txt": "Park on level two.", "bad/slides.pptx": "PK\x03\x04", "bad/ok.md": "# Okay\n\nfine words",
	})
	hb, more, bad := filepath.Join(dir, "hb"), filepath.Join(dir, "more"), filepath.Join(dir, "bad")
	for _, c := range []struct {
		args      []string
		code      int
		out, errs string // parts
	}{
		{[]string{"add", hb}, cli.ExitUsage, "", `"access" not set`},
		{[]string{"add", hb, "--access=all"}, cli.ExitUsage, "", `--access: "all" is no right`},
		{[]string{"add", hb, more, "--name=x", "--access=everyone"}, cli.ExitUsage, "", "--name is for one folder"},
		{[]string{"add", hb, filepath.Join(more, "hb"), "--access=everyone"}, cli.ExitUsage, "", "two folders are called hb: add each with a --name"},
		{[]string{"search", "vacation"}, cli.ExitFailed, "", "never built"},
		{[]string{"add", hb, more, "--access=everyone"}, 0, "hb: 2 added\n", ""},
		{[]string{"add", hb, "--access=everyone"}, 0, "hb: 2 kept\n", ""},
		{[]string{"add", bad, "--access=nobody"}, 3, "bad: 1 added, 1 not taken\n", "slides.pptx: "},
		{[]string{"add", filepath.Join(dir, "none"), "--access=nobody"}, cli.ExitFailed, "", "no such file"},
		{[]string{"add", bad, "--access=nobody", "--json"}, 3, `"File": "slides.pptx"`, ""},
		{[]string{"list"}, 0, "bad/ok.md         1         by nobody  Okay\nhb/bonus.md       1         yes        Bonus\n", ""},
		{[]string{"list"}, 0, "4 documents\nnot taken: bad/slides.pptx: ", ""},
		{[]string{"list", "--json"}, 0, `"ID": "hb/leave.md"`, ""},
		{[]string{"search", "how", "much", "vacation"}, 0, "1. hb/leave.md#1", ""},
		{[]string{"search", "bonus"}, 0, "0 passages\n", ""},
		{[]string{"search", "bonus", "--person=anna"}, 0, "1. hb/bonus.md#1", ""},
		{[]string{"search", "fine", "--json"}, 0, "[]\n", ""},
		{[]string{"search", "x", "--group=a"}, cli.ExitUsage, "", "--group needs --person"},
		{[]string{"remove", "hb/bonus.md"}, 0, "1 document removed\n", ""},
		{[]string{"remove", "nothing"}, cli.ExitFailed, "", `no folder and no document "nothing"`},
	} {
		code, out, errs := execute(t, "", append(append([]string{"knowledge"}, c.args...), redis)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) || c.errs == "" && errs != "" && c.code != 3 {
			t.Errorf("%s: exit code %d\n%s%s", c.args, code, out, errs)
		}
	}
	_, out, _ := execute(t, "", "doctor", "--json", "--port=0", "--bot-knowledge=true", redis)
	if !strings.Contains(out, "the index main has 3 documents, 3 passages, found by their words; 1 of them nobody may read\\nnot taken: bad/slides.pptx") {
		t.Errorf("doctor: %s", out)
	}
	if err := os.RemoveAll(hb); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(hb, 0o700); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := execute(t, "", "knowledge", "add", hb, "--access=everyone", redis); code != cli.ExitFailed || !strings.Contains(errs, "vanished") || !strings.Contains(errs, "--shrink") {
		t.Errorf("%d %s", code, errs)
	}
	if code, out, _ := execute(t, "", "knowledge", "add", hb, "--access=everyone", "--shrink", redis); code != 0 || out != hb+": 1 removed\n" {
		t.Errorf("%d %s", code, out)
	}
}

// TestKnowledgeWatch: the command goes on and takes what changes, until it is stopped.
func TestKnowledgeWatch(t *testing.T) {
	t.Parallel()
	redis := "REDIS_URL=redis://" + miniredis.RunT(t).Addr()
	dir := skillTree(t, map[string]string{"a.md": "# A\n\none"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	process := botProcess(ctx, []string{redis}, "knowledge", "add", dir, "--name=d", "--access=everyone", "--every=20ms")
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	line := func() string {
		buffer := make([]byte, 1000)
		n, err := out.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return string(buffer[:n])
	}
	if got := line(); got != dir+": 1 added\n" {
		t.Error(got)
	}
	if got := line(); got != dir+": 1 kept\n" {
		t.Error(got)
	}
	if err := os.WriteFile(filepath.Join(dir, "b.md"), []byte("# B\n\ntwo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := line(); !strings.Contains(got, "1 added, 1 kept") {
		t.Error(got)
	}
	if err := process.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Errorf("stopped with %v", err)
	}
}

// TestOwnFolders: a bot without Redis reads the folders of its settings.
func TestOwnFolders(t *testing.T) {
	t.Parallel()
	dir := skillTree(t, map[string]string{"hb/leave.md": "# Leave\n\nThirty days of vacation."})
	own := []string{"--bot-knowledge-dir=" + filepath.Join(dir, "hb"), "--bot-knowledge-access=everyone"}
	for _, c := range []struct {
		args      []string
		stdin     string
		code      int
		out, errs string
	}{
		{[]string{"knowledge", "search", "vacation"}, "", 0, "1. hb/leave.md#1", ""},
		{[]string{"knowledge", "list"}, "", 0, "1 document\n", ""},
		{[]string{"knowledge", "add", dir, "--access=everyone"}, "", cli.ExitUsage, "", "REDIS_URL or BOT_DATA_DIR must be set"},
		{[]string{"actions"}, "", 0, "searchKnowledge", ""},
		{[]string{"chat"}, "search the documents for vacation\n", 0, "Thirty days of vacation. [1]", ""},
		{[]string{"doctor", "--port=0"}, "", 0, "the index main has 1 document, 1 passage", ""},
	} {
		code, out, errs := execute(t, c.stdin, append(c.args, own...)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) {
			t.Errorf("%s: exit code %d\n%s%s", c.args, code, out, errs)
		}
	}
	for wrong, want := range map[string]string{
		"--bot-knowledge-dir=" + dir:           "BOT_KNOWLEDGE_ACCESS: is needed",
		"--bot-knowledge=true":                 "BOT_KNOWLEDGE: needs REDIS_URL or BOT_DATA_DIR",
		"--bot-embedding-dimensions=0":         "BOT_EMBEDDING_DIMENSIONS",
		"--bot-embedding-model=small":          "BOT_EMBEDDING_MODEL: needs OPENAI_API_KEY",
		own[0] + " --bot-knowledge-access=all": `BOT_KNOWLEDGE_ACCESS: "all" is no right`,
		strings.Join(own, " ") + " --microsoft-app-type=MultiTenant --microsoft-app-id=11111111-2222-3333-4444-555555555555 --bot-model=offline --bot-state=embedded --microsoft-app-password=x": "BOT_KNOWLEDGE_TENANT: is needed",
	} {
		if code, _, errs := execute(t, "", append([]string{"serve", "--port=0"}, strings.Fields(wrong)...)...); code != cli.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %s\nwant %s", wrong, code, errs, want)
		}
	}
}

// TestPromptsWithDataSources: a prompt of a bot may name its documents.
func TestPromptsWithDataSources(t *testing.T) {
	t.Parallel()
	dir := skillTree(t, map[string]string{
		"hb/leave.md": "# Leave\n\nThirty days of vacation.", "p/sequence/prompt.txt": "Plan. {{actions}} {{manual}}",
		"p/sequence/config.json": `{"augmentation": {"data_sources": {"documents": 500}}}`,
	})
	prompts := "--bot-prompts-dir=" + filepath.Join(dir, "p")
	if code, _, errs := execute(t, "", "doctor", "--port=0", prompts); code != cli.ExitFailed && errs == "" {
		t.Errorf("without documents: %d %s", code, errs)
	}
	own := []string{"--bot-knowledge-dir=" + filepath.Join(dir, "hb"), "--bot-knowledge-access=everyone", prompts}
	if code, out, errs := execute(t, "search the documents for vacation\n", append([]string{"chat"}, own...)...); code != 0 || !strings.Contains(out, "Thirty days of vacation. [1]") {
		t.Errorf("%d %s%s", code, out, errs)
	}
}

// TestADamagedDocumentEndsNothing: a file whose reader dies or never ends is left out of a folder, with the
// reason, and the others are found.
func TestADamagedDocumentEndsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"huge-xref.pdf", "xref-stream-index.pdf"} {
		content, err := os.ReadFile(filepath.Join("..", "knowledge", "testdata", "files", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "good.md"), []byte("# Holidays\n\n<b>Thirty</b> days."), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := botProcess(t.Context(), []string{"BOT_KNOWLEDGE_ACCESS=everyone", "BOT_KNOWLEDGE_DIR=" + dir}, "knowledge", "list")
	said, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "good.md") || strings.Count(string(said), "huge-xref.pdf") != 1 || !strings.Contains(string(said), "xref-stream-index.pdf") {
		t.Errorf("%v\n%s", err, said)
	}
}

// TestScansAreRead: with the setting the model reads a page that is a picture, at the wire, once it was told what that
// takes; doctor and search send nothing.
func TestScansAreRead(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	if err := jpeg.Encode(&packed, image.NewGray(image.Rect(0, 0, 300, 400)), nil); err != nil {
		t.Fatal(err)
	}
	pdf := "%PDF-1.7\n1 0 obj\n<< /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Kids [3 0 R] /MediaBox [0 0 600 800] >>\nendobj\n" +
		"3 0 obj\n<< /Type /Page /Contents 4 0 R /Resources << /XObject << /Im 5 0 R >> >> >>\nendobj\n" +
		"4 0 obj\n<< /Length 26 >>\nstream\n600 0 0 800 0 0 cm /Im Do \nendstream\nendobj\n" +
		fmt.Sprintf("5 0 obj\n<< /Subtype /Image /Filter /DCTDecode /Length %d >>\nstream\n%s\nendstream\nendobj\ntrailer\n<< /Root 1 0 R >>\n", packed.Len(), packed.String())
	dir := skillTree(t, map[string]string{"hb/scan.pdf": pdf})
	var asked atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"image_url"`) || !strings.Contains(string(body), "data:image/jpeg;base64,") && !strings.Contains(string(body), "data:image/png;base64,") {
			t.Errorf("the model got %.300s", body)
		}
		asked.Add(1)
		_, _ = io.WriteString(w, `{"choices": [{"message": {"role": "assistant", "content": "The warranty lasts two years."}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 500, "completion_tokens": 8, "total_tokens": 508}}`)
	}))
	t.Cleanup(model.Close)
	sees := []string{"--redis-url=redis://" + miniredis.RunT(t).Addr(), "--openai-base-url=" + model.URL, "--bot-model-sees=true"}
	on := append([]string{"--bot-knowledge-pictures=5", "--bot-model-price=10,20"}, sees...)
	hb := filepath.Join(dir, "hb")
	for _, c := range []struct {
		args      []string
		with      []string
		code      int
		out, errs string
		asked     int64
	}{
		{[]string{"knowledge", "add", hb, "--access=everyone"}, sees, 3, hb + ": 1 not taken\n", "as a scan has", 0},
		{[]string{"knowledge", "add", hb, "--access=everyone"}, on, 0, hb + ": 1 added, 1 page read by the model\n", "the model is about to read 1 page that is a picture: about 311 tokens to it and 800 from it, which cost about 0.0191\n", 1},
		{[]string{"knowledge", "add", hb, "--access=everyone"}, on, 0, hb + ": 1 kept\n", "", 1},
		{[]string{"knowledge", "search", "warranty"}, on, 0, "page 1", "", 1},
		{[]string{"knowledge", "list"}, append([]string{"--bot-knowledge-dir=" + hb, "--bot-knowledge-access=everyone"}, on[:2]...), cli.ExitUsage, "", "BOT_KNOWLEDGE_PICTURES: needs BOT_MODEL_SEES", 1},
	} {
		code, out, errs := execute(t, "", append(c.args, c.with...)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) || asked.Load() != c.asked {
			t.Errorf("%s: exit code %d, asked %d\n%s%s", c.args, code, asked.Load(), out, errs)
		}
	}
}
