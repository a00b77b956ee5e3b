// Command handbook answers from the handbook of a company, with citations, in four languages. Everybody
// may read most of it, some pages only a few.
//
//	go run ./examples/handbook
//
// Without a key it plans with the offline model, which takes phrases such as "search the documents for
// hotels in Zurich". See README.md beside it.
package main

import (
	"context"
	"embed"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/documents"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/knowledge"
)

//go:embed documents
var pages embed.FS

func main() { app.Main(handbook(groupsOf), full.Features()...) }

// handbook is the bot, with the service that knows who is in which group: a real one, or that of a test.
func handbook(groups func(ctx context.Context, tenant, person string) ([]string, error)) app.Bot {
	return app.Bot{
		Name: "Handbook",
		Instructions: `You answer questions about the handbook of Contoso. Be brief, and answer in the language of the question.
Search before you answer. Say so if the handbook does not answer it.`,
		Welcome:  "Hello, ask me about the handbook: vacation, expenses, computers.",
		Examples: []string{"What do the documents say about vacation days?", "Search the documents for hotels in Zurich."},
		Features: func() []app.Feature { return []app.Feature{documents.Feature(answersFrom(groups))} },
	}
}

// answersFrom says what the bot answers from, and asks that service for groups.
func answersFrom(groups func(ctx context.Context, tenant, person string) ([]string, error)) documents.Config {
	return documents.Config{
		Folders: []knowledge.Folder{{
			FS: pages, Path: "documents", Name: "handbook",
			Access: []string{knowledge.EveryoneInTenant}, // for pages without rights of their own
			URL:    "https://intranet.contoso.example/handbook",
		}},
		Knowledge: knowledge.Config{Groups: groups},
	}
}

// groupsOf stands in for a directory. The people are those of the Agents Playground.
func groupsOf(_ context.Context, _, person string) ([]string, error) {
	switch person {
	case "00000000-0000-0000-0000-0000000000020": // Alex Wilber
		return []string{"leads", "party"}, nil
	}
	return nil, nil
}
