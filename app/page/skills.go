package page

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/skills/sandbox"
	"github.com/planbot-go/planbot/state"
)

const (
	maxParts     = 100              // files of a skill that are listed
	maxThreads   = 50               // of a channel that are looked at
	skillsWithin = 10 * time.Second // limits one look at the folders of skills
)

// skillViews show the bot's skills.
type skillViews struct{ *server }

func (v skillViews) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /dev/skills", func(w http.ResponseWriter, r *http.Request) {
		v.show(w, "/dev/skills", "Skills", v.look(r.Context()).html())
	})
	mux.HandleFunc("GET /dev/skills.json", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, v.look(r.Context())) })
}

// skillsView is what the view of skills shows.
type skillsView struct {
	Version int          `json:"version"`
	Folders []string     `json:"folders"` // that are searched
	Skills  []skillShown `json:"skills"`
	Others  []faultShown `json:"others"`            // faults of what is no skill
	Scripts string       `json:"scripts,omitempty"` // what they run in
	Refused []string     `json:"refused"`           // why other sandboxes do not work
	Fault   string       `json:"fault,omitempty"`
}

// skillShown is a skill as the view shows it.
type skillShown struct {
	Name          string       `json:"name"`
	Description   string       `json:"description"`
	License       string       `json:"license,omitempty"`
	Compatibility string       `json:"compatibility,omitempty"`
	AllowedTools  []string     `json:"allowedTools,omitempty"`
	Metadata      []string     `json:"metadata,omitempty"`
	PeopleOnly    bool         `json:"peopleOnly"`
	Source        string       `json:"source"` // its folder
	Digest        string       `json:"digest"` // of SKILL.md
	Whole         string       `json:"digestOfAll,omitempty"`
	Resources     []string     `json:"resources"`
	Scripts       []script     `json:"scripts"`
	More          int          `json:"more,omitempty"` // files that are not listed
	Faults        []faultShown `json:"faults"`
	Loaded        []string     `json:"loaded"` // where
	Instructions  string       `json:"instructions"`
}

// script is a script of a skill. Refused says why it cannot run; "": it can.
type script struct {
	Name    string `json:"name"`
	Refused string `json:"refused,omitempty"`
}

type faultShown struct {
	Path    string `json:"path"`
	Line    int    `json:"line,omitempty"`
	Text    string `json:"text"`
	Warning bool   `json:"warning"`
}

func (v skillViews) look(ctx context.Context) skillsView {
	said := skillsView{
		Version: madeVersion, Folders: append([]string{}, v.of.Skills.Roots...), Skills: []skillShown{}, Others: []faultShown{}, Refused: []string{},
		Scripts: v.of.Scripts,
	}
	if len(said.Folders) == 0 {
		return said
	}
	ctx, cancel := context.WithTimeout(ctx, skillsWithin)
	defer cancel()
	if box, ok := v.of.Sandbox.(*sandbox.Sandbox); ok {
		for _, err := range box.Refused() {
			said.Refused = append(said.Refused, shownText(err.Error()))
		}
	}
	found, faults, err := v.of.Skills.Discover(ctx)
	if err != nil {
		said.Fault = shownText(err.Error())
		return said
	}
	loaded, err := v.loaded(ctx)
	if err != nil {
		said.Fault = "The page cannot tell where skills are loaded: " + shownText(err.Error())
	}
	for _, s := range found {
		said.Skills = append(said.Skills, v.shown(ctx, s, loaded[s.Name]))
	}
	for _, f := range faults {
		one := faultShown{f.Path, f.Line, f.Text, f.Warning}
		i := slices.IndexFunc(found, func(s *skills.Skill) bool { return of(s, f) })
		if i < 0 {
			said.Others = append(said.Others, one)
		} else {
			said.Skills[i].Faults = append(said.Skills[i].Faults, one)
		}
	}
	return said
}

// of reports whether a fault is about that skill, which is in the folder that the fault names.
func of(s *skills.Skill, f skills.Fault) bool {
	path, err := filepath.Abs(f.Path)
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(real, filepath.Base(path))
	}
	in, err := filepath.Rel(s.Dir, path)
	return err == nil && filepath.IsLocal(in)
}

func (v skillViews) shown(ctx context.Context, s *skills.Skill, loaded []string) skillShown {
	shown := skillShown{
		Name: s.Name, Description: s.Description, License: s.License, Compatibility: s.Compatibility, AllowedTools: s.AllowedTools,
		PeopleOnly: s.DisableModelInvocation, Source: s.Dir, Digest: fmt.Sprintf("%x", sha256.Sum256([]byte(s.Text))),
		Resources: []string{}, Scripts: []script{}, Faults: []faultShown{}, Loaded: append([]string{}, loaded...), Instructions: s.Instructions,
	}
	for _, key := range slices.Sorted(maps.Keys(s.Metadata)) {
		shown.Metadata = append(shown.Metadata, key+": "+s.Metadata[key])
	}
	for _, r := range s.Resources[:min(len(s.Resources), maxParts)] {
		shown.Resources = append(shown.Resources, r.Name)
	}
	for _, one := range s.Scripts[:min(len(s.Scripts), maxParts)] {
		shown.Scripts = append(shown.Scripts, script{one.Name, v.refuses(one.Name)})
	}
	shown.More = len(s.Resources) + len(s.Scripts) - len(shown.Resources) - len(shown.Scripts)
	if len(s.Scripts) > 0 {
		shown.Whole = digestOf(ctx, s.Dir)
	}
	return shown
}

// refuses says why a script cannot run here.
func (v skillViews) refuses(name string) string {
	if v.of.Sandbox == nil {
		return "there is no sandbox"
	}
	return v.of.Sandbox.Check(sandbox.Command{Script: name})
}

// digestOf is what an approval of the skill's scripts is bound to, or says why they cannot run.
func digestOf(ctx context.Context, dir string) string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return shownText(err.Error())
	}
	defer func() { _ = root.Close() }() // read only
	digest, err := new(sandbox.Sandbox).Digest(ctx, root)
	if err != nil {
		return "none: " + shownText(err.Error())
	}
	return digest
}

// loaded finds the conversations of the page in which skills are loaded, by skill.
func (v skillViews) loaded(ctx context.Context) (map[string][]string, error) {
	if v.of.Bot == nil {
		return map[string][]string{}, nil
	}
	var keys []state.Key
	var names []string
	add := func(id, name string) {
		keys, names = append(keys, state.ConversationKey(activity.Teams, botAccount, id)), append(names, name)
	}
	_, rooms := v.chat.show("")
	for _, r := range rooms {
		add(r.ID, r.Name)
		one, _ := v.chat.show(r.Key)
		for _, m := range one.Threads[max(0, len(one.Threads)-maxThreads):] {
			add(r.ID+";messageid="+m.ID, r.Name+", thread "+m.ID)
		}
	}
	scopes, err := v.of.Bot.Store().Load(ctx, keys...)
	if len(scopes) != len(keys) {
		return map[string][]string{}, err
	}
	all := map[string][]string{}
	for i, scope := range scopes {
		raw, _ := scope.JSON("skills") // what cannot be read has none
		var active struct {
			Loaded []struct {
				Skill string `json:"skill"`
			} `json:"loaded"`
		}
		if raw == nil || json.Unmarshal(raw, &active) != nil {
			continue
		}
		for _, one := range active.Loaded {
			all[one.Skill] = append(all[one.Skill], names[i])
		}
	}
	return all, nil
}
