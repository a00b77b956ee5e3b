package knowledge_test

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/planbot-go/planbot/knowledge"
	"github.com/planbot-go/planbot/state"
)

// asHelper is the argument with which the tests' binary is the program of a helper; hungry makes it take memory.
const asHelper, hungry = "read-one-file", "take-memory"

func TestMain(m *testing.M) {
	switch os.Args[len(os.Args)-1] {
	case asHelper:
		if err := knowledge.ServeHelper(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	case hungry:
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			os.Exit(1)
		}
		for all := [][]byte{}; ; {
			all = append(all, bytes.Repeat([]byte{1}, 64<<20))
			runtime.KeepAlive(all)
		}
	}
	debug.SetGCPercent(400) // collecting garbage was a third of what the tests cost
	goleak.VerifyTestMain(m)
}

const tenant = "11111111-2222-3333-4444-555555555555"

// everyone is somebody of the tenant in a group.
var everyone = knowledge.Caller{Tenant: tenant, Conversation: "group"}

func person(id string) knowledge.Caller {
	return knowledge.Caller{Tenant: tenant, Conversation: "with " + id, Personal: true, Person: id}
}

// bundle is an index in a store of its own, and a folder.
type bundle struct {
	*knowledge.Index
	t     *testing.T
	store *state.Store
	dir   string
}

func setup(t *testing.T) *bundle {
	t.Helper()
	store, err := state.Open(t.Context(), "", state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	b := &bundle{t: t, store: store, dir: filepath.Join(t.TempDir(), "handbook")}
	b.Index = b.index(knowledge.IndexConfig{})
	return b
}

// index makes another index of the same store.
func (b *bundle) index(cfg knowledge.IndexConfig) *knowledge.Index {
	b.t.Helper()
	cfg.Store, cfg.Tenant = b.store, tenant
	x, err := knowledge.NewIndex(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	return x
}

// files writes files into the folder, "" removes one.
func (b *bundle) files(files map[string]string) {
	b.t.Helper()
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		b.t.Fatal(err)
	}
	for name, text := range files {
		name = filepath.Join(b.dir, name)
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if text == "" {
			err = os.Remove(name)
		} else if err == nil {
			err = os.WriteFile(name, []byte(text), 0o600)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bundle) folder() knowledge.Folder {
	return knowledge.Folder{Path: b.dir, Access: []string{knowledge.EveryoneInTenant}}
}

// add adds what must be addable.
func (b *bundle) add(files map[string]string) knowledge.Report {
	b.t.Helper()
	b.files(files)
	report, err := b.Add(b.t.Context(), b.folder())
	if err != nil {
		b.t.Fatal(err)
	}
	return report
}

// found are the ids of what somebody finds.
func (b *bundle) found(c knowledge.Caller, text string) string {
	b.t.Helper()
	return found(b.t, b.Index, c, text)
}

func found(t *testing.T, s knowledge.Source, c knowledge.Caller, text string) string {
	t.Helper()
	passages, err := s.Search(t.Context(), knowledge.Query{Text: text, Caller: c})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, p := range passages {
		ids = append(ids, strings.TrimPrefix(p.ID, "handbook/"))
	}
	return strings.Join(ids, " ")
}
