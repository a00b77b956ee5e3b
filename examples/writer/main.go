// Command writer is a bot without an action in Go: what it can do are two prompts
// in files, and a sequential plan feeds one with what the other wrote. See
// README.md beside it.
package main

import (
	"embed"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
)

// files hold a prompt a folder; config.json says what it takes.
//
//go:embed prompts
var files embed.FS

var writer = app.Bot{
	Name:     "Writer",
	Examples: []string{"Write a poem about John Doe, then translate it into Chinese.", "帮忙写一首关于水哥的诗, 然后翻译为中文"},
	Planner:  "sequential",
	Prompts:  files,
}

func main() { app.Main(writer, full.Features()...) }
