package page

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planbot-go/planbot/app"
)

const doctorWithin = 30 * time.Second // limits one examination of the settings

// Setting says where a setting's value comes from.
type setting struct {
	Name    string `json:"name"` // of the variable
	From    string `json:"from"` // what set it, such as a flag; "": nothing, so Default counts
	About   string `json:"about"`
	Default string `json:"default"`         // in words
	Value   string `json:"value,omitempty"` // of a harmless one
	Secret  bool   `json:"secret"`
}

// settingViews show the settings, and what the doctor says of them.
type settingViews struct {
	*server
	busy sync.Mutex                  // held while one is made
	last atomic.Pointer[examination] // nil: none was made
}

// examination is what the doctor said.
type examination struct {
	At     time.Time     `json:"at"`
	TookNS time.Duration `json:"tookNs"`
	Checks []app.Check   `json:"checks"`
	Fault  string        `json:"fault,omitempty"`
}

func (v *settingViews) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /dev/settings", func(w http.ResponseWriter, r *http.Request) {
		var set, unset []setting
		query := r.URL.Query().Get("q")
		for _, one := range v.of.Settings {
			if !strings.Contains(strings.ToLower(one.Name+" "+one.About), strings.ToLower(query)) {
				continue
			}
			if one.From != "" {
				set = append(set, one)
			} else {
				unset = append(unset, one)
			}
		}
		v.show(w, "/dev/settings", "Settings", v.settingsPage(settingsView{query, set, unset, v.last.Load(), v.of.Doctor != nil}))
	})
	mux.HandleFunc("GET /dev/settings.json", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{"version": madeVersion, "settings": append([]setting{}, v.of.Settings...), "doctor": v.last.Load()})
	})
	mux.HandleFunc("POST /dev/settings/doctor", v.acts(v.examine))
}

// examine asks the doctor, and leads back to the settings.
func (v *settingViews) examine(w http.ResponseWriter, r *http.Request) {
	if v.of.Doctor == nil {
		v.fail(w, http.StatusNotFound, "Nothing here can examine the settings.")
		return
	}
	if !v.busy.TryLock() {
		v.fail(w, http.StatusConflict, "The doctor is at work. Load the settings again in a moment.")
		return
	}
	defer v.busy.Unlock()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(doctorWithin + 10*time.Second)) // else the server's counts
	ctx, cancel := context.WithTimeout(r.Context(), doctorWithin)
	defer cancel()
	e := &examination{At: time.Now(), Checks: []app.Check{}}
	checks, err := v.of.Doctor(ctx)
	e.TookNS = time.Since(e.At)
	e.Checks = append(e.Checks, checks...)
	if err != nil {
		e.Fault = shownText(err.Error())
	}
	v.last.Store(e)
	if byForm(r) {
		http.Redirect(w, r, "/dev/settings#doctor", http.StatusSeeOther)
		return
	}
	writeJSON(w, map[string]any{"version": madeVersion, "doctor": e})
}
