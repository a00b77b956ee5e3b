package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/documents"
	"github.com/planbot-go/planbot/knowledge"
)

// TestWrongFolders of Go and of settings are listed together.
func TestWrongFolders(t *testing.T) {
	t.Parallel()
	feature := documents.Feature(documents.Config{Folders: []knowledge.Folder{
		{Path: filepath.Join(t.TempDir(), "nix"), Access: []string{knowledge.EveryoneInTenant}},
		{FS: fstest.MapFS{"a.md": {}}, Name: "open"},
		{FS: fstest.MapFS{"a.md": {}}, Path: "b", Name: "gone", Access: []string{knowledge.Nobody}},
	}})
	err := app.Settings(app.Bot{Name: "Desk"}, feature).Read("--bot-knowledge-dir=/nope:/else/Nope", "--bot-knowledge-access=everyone")
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{
		"documents.Config.Folders: ", "nix: no such file", "open: no Access", "gone: ", "BOT_KNOWLEDGE_DIR: nope: ",
		"BOT_KNOWLEDGE_DIR: two folders are called Nope",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

// TestFoldersWithoutNames are called by the last part of their paths, and one name is that of one folder.
func TestFoldersWithoutNames(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	folder := func(name string) knowledge.Folder {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return knowledge.Folder{Path: path, Access: []string{knowledge.Nobody}}
	}
	read := func(folders ...knowledge.Folder) error {
		return app.Settings(app.Bot{Name: "Desk"}, documents.Feature(documents.Config{Folders: folders})).Read()
	}
	if err := read(folder("fa"), folder("fb")); err != nil {
		t.Error(err)
	}
	err := read(folder("fa"), folder("x/fa"))
	if err == nil || err.Error() != "documents.Config.Folders: two folders are called fa" {
		t.Errorf("two of one name: %v", err)
	}
}

// TestWithoutKnowledge: a bot that does not read documents says so where a setting names some.
func TestWithoutKnowledge(t *testing.T) {
	t.Setenv("BOT_KNOWLEDGE_DIR", "handbook")
	s := app.Settings(app.Bot{Name: "Desk"})
	if err := s.Read(); err != nil {
		t.Fatal(err)
	}
	const want = "this bot has no knowledge: BOT_KNOWLEDGE_DIR is set and nobody reads it"
	if got := strings.Join(s.Warnings(), "\n"); got != want {
		t.Errorf("warnings: %s", got)
	}
}
