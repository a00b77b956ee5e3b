package knowledge_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/knowledge"
	"github.com/planbot-go/planbot/state"
)

func ExampleNewIndex() {
	ctx := context.Background()
	store, err := state.Open(ctx, "", state.Config{}) // inside this process
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	folder, err := os.MkdirTemp("", "handbook")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := os.WriteFile(filepath.Join(folder, "leave.md"), []byte("# Leave\n\nThirty days a year."), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	index, err := knowledge.NewIndex(knowledge.IndexConfig{Store: store, Tenant: "contoso"})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := index.Add(ctx, knowledge.Folder{Path: folder, Name: "handbook", Access: []string{knowledge.EveryoneInTenant}})
	fmt.Println(report, err)
	passages, err := index.Search(ctx, knowledge.Query{
		Text:   "how many days of leave?",
		Caller: knowledge.Caller{Tenant: "contoso", Conversation: "a:1", Personal: true, Person: "anna"},
	})
	if err != nil {
		fmt.Println(err)
	}
	for _, p := range passages {
		fmt.Println(p.Document, p.Path, p.Text)
	}
	// Output:
	// 1 added <nil>
	// handbook/leave.md Leave Thirty days a year.
}

func ExampleNew() {
	store, err := state.Open(context.Background(), "", state.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	index, err := knowledge.NewIndex(knowledge.IndexConfig{Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	base, err := knowledge.New(knowledge.Config{Sources: []knowledge.NamedSource{{Name: "handbook", About: "rules of the company", Source: index}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	// A bot has the action, and runs the index: go index.Run(ctx).
	registry := actions.New()
	fmt.Println(base.Register(registry), registry.All()[0].Name)
	// Output:
	// <nil> searchKnowledge
}

// A program that does not begin with app.Main names another one, which only calls ServeHelper.
func ExampleNewHelper() {
	helper, err := knowledge.NewHelper(knowledge.HelperConfig{Command: []string{"/usr/local/bin/read-file"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = knowledge.Files{Helper: helper}.Read(context.Background(), "", []byte("%PDF-1.7 of a stranger"))
	fmt.Println(errors.Is(err, actions.ErrFileTooComplex)) // there is no such program here
	// Output: true
}
