package page

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/planbot-go/planbot/app/internal/dryrun"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
)

const (
	maxFolders    = 100       // of prompts
	maxPromptFile = 256 << 10 // bytes
	maxPromptSize = 8 << 20   // bytes of all folders
	maxPreviews   = 2         // at the same time
	// previewWithin limits one preview: functions of the bot run for it, and its sources are searched.
	previewWithin = 10 * time.Second
)

// promptViews show the prompt folders, and what the model would be asked with a draft.
type promptViews struct {
	*server
	scrub    *scrub.Scrubber
	previews kept[preview]
	writing  sync.Mutex // a draft to a file that nobody has changed meanwhile
	slots    chan struct{}
}

func (v *promptViews) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /dev/prompts", func(w http.ResponseWriter, _ *http.Request) {
		all, fault := v.folders()
		v.show(w, "/dev/prompts", "Prompts", promptsPage(all, fault))
	})
	mux.HandleFunc("GET /dev/prompts.json", func(w http.ResponseWriter, _ *http.Request) {
		all, fault := v.folders()
		writeJSON(w, map[string]any{"version": madeVersion, "prompts": all, "fault": fault})
	})
	mux.HandleFunc("GET /dev/prompts/{name}", v.one)
	mux.HandleFunc("POST /dev/prompts/{name}", v.acts(v.try))
}

// folder is the folder of a prompt.
type folder struct {
	Name    string       `json:"name"`
	Builtin bool         `json:"builtin"`
	Used    bool         `json:"used"` // by the bot's planner
	Files   []promptFile `json:"files"`
}

type promptFile struct {
	Name   string `json:"name"`
	Text   string `json:"text"`
	Tokens int    `json:"tokens"`
}

// text is the prompt's text as it is on disk.
func (f *folder) text() (name, text string) {
	for _, file := range f.Files {
		if strings.HasSuffix(file.Name, "prompt.txt") {
			return file.Name, file.Text
		}
	}
	return "prompt.txt", ""
}

// folders reads the bot's own prompts and the built-in ones that they do not replace.
func (v *promptViews) folders() (all []folder, fault string) {
	all = []folder{}
	left := maxPromptSize
	for i, from := range []fs.FS{v.of.Prompts, prompts.Builtin()} {
		if from == nil {
			continue
		}
		entries, err := fs.ReadDir(from, ".")
		if err != nil {
			fault = "The folder of prompts cannot be read: " + shownText(err.Error())
		}
		for _, entry := range entries {
			known := slices.ContainsFunc(all, func(f folder) bool { return f.Name == entry.Name() })
			if !entry.IsDir() || strings.HasPrefix(entry.Name(), ".") || known {
				continue
			}
			if len(all) == maxFolders || left <= 0 {
				return all, fmt.Sprintf("There are more prompts than the page shows: %d folders, and %d MiB of text.", maxFolders, maxPromptSize>>20)
			}
			f := folder{Name: entry.Name(), Builtin: i > 0, Used: entry.Name() == v.of.Prompt, Files: []promptFile{}}
			for _, name := range []string{"prompt.txt", "skprompt.txt", "config.json", "actions.json"} {
				text, err := readFile(from, path.Join(f.Name, name))
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					fault = shownText(f.Name + "/" + name + " cannot be read: " + err.Error())
					continue
				}
				left -= len(text)
				f.Files = append(f.Files, promptFile{name, text, v.cfg.Counter.Tokens(text)})
			}
			if len(f.Files) > 0 {
				all = append(all, f)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b folder) int { return cmp.Compare(a.Name, b.Name) })
	return all, fault
}

// readFile reads a file of a prompt, but no more than a prompt may have.
func readFile(from fs.FS, name string) (string, error) {
	file, err := from.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // read only
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", cmp.Or(err, errors.New("it is no file"))
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxPromptFile+1))
	if err == nil && len(raw) > maxPromptFile {
		err = fmt.Errorf("it has more than %d KiB", maxPromptFile>>10)
	}
	return string(raw), err
}

// promptView is what the view of one prompt shows.
type promptView struct {
	folder
	Draft   string
	Turns   []turnlog.Head // of which the variables may be
	Turn    string
	Preview *preview
	// Sent is the turn whose prompt was made with this one last; nil: there is none.
	Sent     *turnlog.Head
	Sections []turnlog.Section
	CanWrite bool   // the draft can be written to the file
	Was      string // the file that the draft began with, as [hashOf] has it
	Wrote    bool
}

// preview is what a model would be asked.
type preview struct {
	Version  int               `json:"version"`
	ID       string            `json:"id"`
	Prompt   string            `json:"prompt"`
	Turn     string            `json:"turn"` // "": of nobody, who has said nothing
	Draft    bool              `json:"draft"`
	Sections []turnlog.Section `json:"sections"`
	Tokens   int               `json:"tokens"`
	Fault    string            `json:"fault,omitempty"`

	text string
	was  string // as that of a promptView
}

// hashOf tells one text of a file from another.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (v *promptViews) find(name string) (folder, bool) {
	all, _ := v.folders()
	i := slices.IndexFunc(all, func(f folder) bool { return f.Name == name })
	if i < 0 {
		return folder{}, false
	}
	return all[i], true
}

func (v *promptViews) one(w http.ResponseWriter, r *http.Request) {
	name, asJSON := strings.CutSuffix(r.PathValue("name"), ".json")
	f, ok := v.find(name)
	if !ok {
		v.fail(w, http.StatusNotFound, "The bot has no prompt "+oneLine(name)+".")
		return
	}
	last, made := v.previews.get(r.URL.Query().Get("preview"))
	made = made && last.Prompt == name
	if asJSON {
		out := map[string]any{"version": madeVersion, "prompt": f}
		if made {
			out["preview"] = last
		}
		writeJSON(w, out)
		return
	}
	said := promptView{folder: f, CanWrite: v.of.WritePrompt != nil && !f.Builtin, Wrote: r.URL.Query().Has("wrote")}
	_, said.Draft = f.text()
	said.Was = hashOf(said.Draft)
	if made {
		said.Preview, said.Turn, said.Draft = &last, last.Turn, last.text
		said.Was = cmp.Or(last.was, said.Was)
	}
	for _, head := range v.turns.Turns() {
		rec, _ := v.turns.Turn(head.ID) // it may be gone by now
		if rec.Before != nil {
			said.Turns = append(said.Turns, head)
		}
		if len(rec.Rounds) > 0 && rec.Rounds[0].Prompt == name && said.Sent == nil {
			countTokens(&rec, v.cfg.Counter)
			said.Sent, said.Sections = &head, rec.Rounds[0].Sections
		}
	}
	if said.Turn == "" && len(said.Turns) > 0 && !made {
		said.Turn = said.Turns[0].ID
	}
	v.show(w, "/dev/prompts", "Prompt "+oneLine(name), v.promptPage(said), "draft.js")
}

// try makes a preview. A script gets only that; a form leads back to the prompt.
func (v *promptViews) try(w http.ResponseWriter, r *http.Request) {
	f, ok := v.find(r.PathValue("name"))
	if !ok {
		v.fail(w, http.StatusNotFound, "The bot has no such prompt.")
		return
	}
	made := v.preview(r.Context(), f, r.PostFormValue("turn"), r.PostFormValue("draft"))
	made.was = r.PostFormValue("was")
	then, at := r.PostFormValue("then"), "/dev/prompts/"+url.PathEscape(f.Name)
	switch {
	case made.Fault != "" || then == "":
	case then == "what-if":
		v.previews.put(made.ID, made)
		http.Redirect(w, r, string(turnAddress(made.Turn, "what-if").With("draft", made.ID)), http.StatusSeeOther)
		return
	case then == "write" && v.of.WritePrompt != nil && !f.Builtin:
		now, err := v.writeDraft(f.Name, made.text, made.was)
		if err != nil {
			v.fail(w, http.StatusInternalServerError, "The prompt was not written: "+err.Error()+".")
			return
		}
		if now == made.was {
			http.Redirect(w, r, at+"?wrote", http.StatusSeeOther)
			return
		}
		made.was, made.Fault = now, "The draft was not written: the file has changed since you opened it. Below, under Files, is what it says now. "+
			"Take over what your draft should keep of it, and write the draft once more."
	}
	switch {
	case r.PostFormValue("part") != "":
		v.write(w, http.StatusOK, made.html())
	case byForm(r):
		v.previews.put(made.ID, made)
		http.Redirect(w, r, at+"?"+url.Values{"preview": {made.ID}}.Encode()+"#preview", http.StatusSeeOther)
	default:
		writeJSON(w, made)
	}
}

// writeDraft writes a draft to the file of a prompt, unless that is another one than it was. It returns the hash of
// the file that it found.
func (v *promptViews) writeDraft(name, draft, was string) (now string, err error) {
	v.writing.Lock()
	defer v.writing.Unlock()
	f, _ := v.find(name) // one that is gone has no text
	file, text := f.text()
	now = hashOf(text)
	if now == was {
		err = v.of.WritePrompt(path.Join(name, file), draft)
	}
	return now, err
}

// preview renders a prompt for a turn, with a draft of its text. "": as it is.
func (v *promptViews) preview(ctx context.Context, f folder, id, draft string) preview {
	file, text := f.text()
	draft = strings.ReplaceAll(draft, "\r\n", "\n") // forms send them
	made := preview{Version: madeVersion, ID: strings.ToLower(rand.Text()[:12]), Prompt: f.Name, Turn: id, Sections: []turnlog.Section{}, text: draft}
	made.Draft = draft != "" && draft != text
	fault := func(why string) preview {
		made.Fault = shownText(v.scrub.Text(why))
		return made
	}
	if draft == "" {
		made.text = text
	}
	rec, known := v.turns.Turn(id)
	switch {
	case len(draft) > maxPromptFile:
		made.text = text
		return fault(fmt.Sprintf("The draft has more than %d KiB.", maxPromptFile>>10))
	case id != "" && !known:
		return fault("The page does not keep that turn any more.")
	case v.of.Preview == nil:
		return fault("There is no planner that could render it.")
	}
	ctx, cancel := context.WithTimeout(ctx, previewWithin)
	defer cancel()
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	case <-ctx.Done():
		return fault("Other previews are being made.")
	}
	own, err := v.with(f.Name, file, made.text)
	if err != nil {
		return fault(err.Error())
	}
	var asked *planner.Asked
	if asked, err = v.of.Preview(ctx, dryrun.TurnOf(rec, rec.Before), own, f.Name); err != nil {
		return fault(err.Error())
	}
	for _, s := range asked.Sections {
		text := s.Text
		for _, c := range s.Calls {
			text += "\n" + c.Name + " " + c.Arguments
		}
		text = v.scrub.Text(strings.TrimSpace(text))
		shown := turnlog.Section{Name: s.Name, Role: s.Role, Text: text, Bytes: len(text), Tokens: v.cfg.Counter.Tokens(text), Left: s.Left}
		if made.Sections = append(made.Sections, shown); !s.Left {
			made.Tokens += shown.Tokens
		}
	}
	return made
}

// with returns the bot's own prompts with one file changed, in the folder "prompts". Nothing of it is on
// disk: it is an archive in memory.
func (v *promptViews) with(name, file, text string) (fs.FS, error) {
	all, _ := v.folders()
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	add := func(name, text string) error {
		w, err := archive.CreateHeader(&zip.FileHeader{Name: "prompts/" + name, Method: zip.Store})
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		return err
	}
	faults := []error{}
	for _, f := range all {
		if f.Builtin && f.Name != name {
			continue
		}
		for _, one := range f.Files {
			if f.Name != name || one.Name != file {
				faults = append(faults, add(f.Name+"/"+one.Name, one.Text))
			}
		}
	}
	faults = append(faults, add(name+"/"+file, text), archive.Close())
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("keep the draft: %w", err)
	}
	return zip.NewReader(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
}
