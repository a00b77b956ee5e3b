package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/app/record"
)

// tests makes tests of turns: it shows them as a scenario, and saves it.
type tests struct{ page *server }

func (t tests) routes(mux *http.ServeMux) {
	form := func(w http.ResponseWriter, r *http.Request) { t.show(w, r, http.StatusOK, "") }
	mux.HandleFunc("GET /dev/turns/save", form)
	mux.HandleFunc("GET /dev/turns/save.json", form)
	mux.HandleFunc("GET /dev/turns/save.yaml", t.download)
	mux.HandleFunc("POST /dev/turns/save", t.page.acts(t.save))
}

const maxChosen = 50 // limits the turns of one scenario

// testFile matches the names of files that can be saved.
var testFile = regexp.MustCompile(`^[a-z0-9-]{1,64}\.yaml$`)

// testView is what the view shows.
type testView struct {
	Turns  []chosenTurn // of the conversation, oldest first
	IDs    []string     // that are chosen
	YAML   string
	Fault  string   // why there is no scenario, or why it was not saved
	Open   []string // what it does not check, and why
	Name   string   // of the file
	Folder string
	Saved  string // the file that was just saved
}

type chosenTurn struct {
	turnlog.Head
	Chosen bool
}

func (t tests) chosen(ids []string) (turns []turnlog.Record, fault string) {
	if len(ids) > maxChosen {
		return nil, fmt.Sprintf("A test has at most %d turns.", maxChosen)
	}
	for _, id := range ids {
		rec, ok := t.page.turns.Turn(id)
		if !ok {
			return nil, "There is no turn " + id + " here any more."
		}
		if isByHand(rec.Head) {
			return nil, "Turn " + id + " is a run by hand, which no test can repeat."
		}
		turns = append(turns, rec)
	}
	return turns, ""
}

func (t tests) write(ctx context.Context, ids []string, file string) (yaml []byte, open []string, fault string) {
	turns, fault := t.chosen(ids)
	if fault != "" {
		return nil, nil, fault
	}
	cfg := t.page.of.Recording
	cfg.Secrets = slices.Concat(cfg.Secrets, t.page.cfg.Secrets, []string{t.page.secret, t.page.token})
	yaml, open, err := record.FromTurns(ctx, cfg, strings.TrimSuffix(file, ".yaml"), turns)
	if err != nil {
		return nil, nil, "These turns cannot become a test: " + err.Error() + "."
	}
	return yaml, open, ""
}

// show shows the form, with what a request has filled in. fault says why that was not saved.
func (t tests) show(w http.ResponseWriter, r *http.Request, status int, fault string) {
	_ = r.ParseForm() // what cannot be read is missing
	q := r.Form
	v := testView{IDs: q["turn"], Folder: t.page.of.Scenarios, Saved: q.Get("saved"), Name: q.Get("name")}
	if v.Name == "" {
		v.Name = t.freeName(v.IDs)
	}
	if len(v.IDs) == 0 {
		v.Fault = "Choose a turn in the list of turns, and there “Save as test”."
	} else {
		var yaml []byte
		yaml, v.Open, v.Fault = t.write(r.Context(), v.IDs, v.Name)
		v.YAML = string(yaml)
	}
	v.Fault = cmp.Or(fault, v.Fault)
	conversation := ""
	if turns, _ := t.chosen(v.IDs[:min(1, len(v.IDs))]); len(turns) > 0 {
		conversation, _, _ = strings.Cut(turns[0].Conversation, ";messageid=") // without its thread
	}
	for _, h := range slices.Backward(t.page.turns.Turns()) {
		from, _, _ := strings.Cut(h.Conversation, ";messageid=")
		if from == conversation && conversation != "" && h.Outcome != turnlog.Duplicate && !isByHand(h) {
			v.Turns = append(v.Turns, chosenTurn{h, slices.Contains(v.IDs, h.ID)})
		}
	}
	if strings.HasSuffix(r.URL.Path, ".json") {
		writeJSON(w, map[string]any{"version": turnlog.Version, "turns": v.IDs, "yaml": v.YAML, "fault": v.Fault, "notChecked": v.Open, "name": v.Name, "folder": v.Folder})
		return
	}
	t.page.write(w, status, t.page.document("Save as test", "/dev/turns", t.page.savePage(v)))
}

func (t tests) freeName(ids []string) string {
	name := "test"
	if len(ids) > 0 && testFile.MatchString("turn-"+ids[0]+".yaml") {
		name = "turn-" + ids[0]
	}
	for n := 1; n < maxChosen; n++ {
		file := name + ".yaml"
		if n > 1 {
			file = name + "-" + strconv.Itoa(n) + ".yaml"
		}
		if _, err := os.Stat(filepath.Join(t.page.of.Scenarios, file)); err != nil {
			return file
		}
	}
	return name + ".yaml"
}

// nameHelp says what a file may be called.
const nameHelp = "The name of the file has to be 1 to 64 of a-z, 0-9 and -, and then .yaml."

func (t tests) download(w http.ResponseWriter, r *http.Request) {
	name := cmp.Or(r.URL.Query().Get("name"), "test.yaml")
	yaml, _, fault := t.write(r.Context(), r.URL.Query()["turn"], name)
	switch {
	case !testFile.MatchString(name):
		t.page.fail(w, http.StatusBadRequest, nameHelp)
	case fault != "":
		t.page.fail(w, http.StatusConflict, fault)
	default:
		w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		_, _ = w.Write(yaml) // if this fails, nobody reads it
	}
}

func (t tests) save(w http.ResponseWriter, r *http.Request) {
	name := r.PostFormValue("name")
	ids := r.PostForm["turn"]
	if !testFile.MatchString(name) {
		t.show(w, r, http.StatusBadRequest, nameHelp)
		return
	}
	if t.page.of.Scenarios == "" {
		t.show(w, r, http.StatusConflict, "There is no folder for tests. Download the file instead.")
		return
	}
	yaml, _, fault := t.write(r.Context(), ids, name)
	if fault != "" {
		t.show(w, r, http.StatusConflict, fault)
		return
	}
	if err := createFile(t.page.of.Scenarios, name, yaml); err != nil {
		t.page.cfg.Log.Warn().Err(err).Str("file", name).Msg("a test was not saved")
		status, why := whyNotSaved(err, t.page.of.Scenarios, name)
		t.show(w, r, status, why)
		return
	}
	t.page.cfg.Log.Info().Str("file", filepath.Join(t.page.of.Scenarios, name)).Msg("a test was saved")
	http.Redirect(w, r, "/dev/turns/save?"+url.Values{"turn": ids, "saved": {filepath.Join(t.page.of.Scenarios, name)}}.Encode(), http.StatusSeeOther)
}

func whyNotSaved(err error, folder, name string) (status int, why string) {
	switch {
	case errors.Is(err, fs.ErrExist):
		return http.StatusConflict, "There is already a file " + name + " in the folder " + folder + ". It was not changed. Choose another name."
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return http.StatusInsufficientStorage, "The disk with the folder " + folder + " is full, so nothing was saved."
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return http.StatusInternalServerError, "The folder " + folder + " cannot be written, so nothing was saved."
	}
	return http.StatusInternalServerError, "The file could not be written to the folder " + folder + ", so nothing was saved. The log says why."
}

// createFile writes a new file in the folder, whole or not at all. The error is [fs.ErrExist] if there is
// one of this name. It makes the folder if there is none.
func createFile(folder, name string, data []byte) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	name = filepath.Join(folder, name)
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync() // a full disk may show only now
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}
