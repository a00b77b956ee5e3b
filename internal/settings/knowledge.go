package settings

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"

	"github.com/planbot-go/planbot/knowledge"
)

// documents is the name of the bot's own index among its sources.
const documents = "documents"

// lateIndex is an index that is opened after planners are made.
type lateIndex struct {
	*atomic.Pointer[knowledge.Index]
	local  bool // nobody proves a tenant
	tenant string
}

var errNoIndex = errors.New("the index is not open")

// Search is that of the index. In local mode everybody is of its tenant: only this machine reaches the bot.
func (x lateIndex) Search(ctx context.Context, q knowledge.Query) ([]knowledge.Passage, error) {
	index := x.Load()
	if index == nil {
		return nil, errNoIndex
	}
	if x.local {
		q.Caller.Tenant = x.tenant
	}
	return index.Search(ctx, q)
}

// nameOf is the name of a folder among those of an index.
func nameOf(dir string) string {
	if full, err := filepath.Abs(dir); err == nil {
		dir = full
	}
	return filepath.Base(dir)
}
