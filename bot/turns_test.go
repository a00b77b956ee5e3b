package bot_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
)

var update = flag.Bool("update", false, "write what was sent into testdata/turns")

// TestTurns plays whole turns from files. Each "N activity" section holds the
// fields of an activity over the defaults of a personal chat in Teams; "N model"
// what the model says, a section a call, or "N calls" what it calls as tools, a
// line of id, name and arguments each; "N sent" everything that the bot sends
// for it; "N prompt", if there is one, lines that the last prompt has to hold. A
// first section "planner" names the planner.
func TestTurns(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/turns/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no turns: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := "sequence"
			if len(archive.Files) > 0 && archive.Files[0].Name == "planner" {
				name = strings.TrimSpace(string(archive.Files[0].Data))
			}
			acts := actions.New()
			lists.Register(acts)
			bottest.Test(t, bottest.Config{Actions: acts, Planner: name}, func(t *testing.T, kit *bottest.Kit) {
				play(t, kit, archive)
			})
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func play(t *testing.T, kit *bottest.Kit, archive *txtar.Archive) {
	t.Helper()
	chat := kit.Conversation("a:mia", "personal", "Mia")
	seen := 0
	for n := 1; ; n++ {
		activities := sections(archive, n, "activity")
		if len(activities) == 0 {
			if n == 1 {
				t.Fatal("no turn in the file")
			}
			return
		}
		scriptTurn(kit.Model, archive, n)
		var over map[string]any
		if err := json.Unmarshal(activities[0].Data, &over); err != nil {
			t.Fatal(err)
		}
		over["type"], over["id"] = "message", fmt.Sprint("activity-", n)
		chat.Deliver(over).Taken()
		kit.Settle()
		all := kit.Connector.Sent()
		sent := ""
		for _, s := range all[seen:] {
			sent += written(t, s)
		}
		seen = len(all)
		want := sections(archive, n, "sent")
		if *update {
			want[0].Data = []byte(sent)
		}
		if diff := cmp.Diff(string(want[0].Data), sent); diff != "" {
			t.Errorf("turn %d sent (-want +got):\n%s", n, diff)
		}
		for _, p := range sections(archive, n, "prompt") {
			checkPrompt(t, n, kit.Model.LastCall().Prompt(), string(p.Data))
		}
	}
}

// written is a request to the connector as the files have it.
func written(t *testing.T, s bottest.Sent) string {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal([]byte(s.JSON), &body); err != nil {
		t.Fatal(err)
	}
	raw, err := json.MarshalIndent(body, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return s.Method + " " + s.To + ", to " + s.ReplyTo + "\n" + turnID.ReplaceAllString(string(raw), "(turn ID)") + "\n"
}

// scriptTurn tells the model its answers in turn n, in the order of the file.
func scriptTurn(model *bottest.Model, archive *txtar.Archive, n int) {
	for i := range archive.Files {
		data := strings.TrimSuffix(string(archive.Files[i].Data), "\n")
		switch archive.Files[i].Name {
		case fmt.Sprint(n, " model"):
			model.Says(data)
		case fmt.Sprint(n, " calls"):
			var calls []models.Call
			for line := range strings.SplitSeq(data, "\n") {
				id, call, _ := strings.Cut(line, " ")
				name, arguments, _ := strings.Cut(call, " ")
				calls = append(calls, models.Call{ID: id, Name: name, Arguments: arguments})
			}
			model.CallsTools(calls...)
		}
	}
}

var turnID = regexp.MustCompile(`\(turn [a-z0-9]+\)`)

func checkPrompt(t *testing.T, n int, prompt, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		if !strings.Contains(prompt, strings.TrimSuffix(line, "\n")) {
			t.Errorf("turn %d: the prompt does not hold %q:\n%s", n, line, prompt)
		}
	}
}

func sections(archive *txtar.Archive, n int, kind string) []*txtar.File {
	var found []*txtar.File
	for i := range archive.Files {
		if archive.Files[i].Name == fmt.Sprint(n, " ", kind) {
			found = append(found, &archive.Files[i])
		}
	}
	return found
}
