package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/models"
)

// Against are the settings with others in place of some, each as NAME=VALUE; an empty value is
// unset. A key stays with the server that it was set for, and a price with its model. The
// error is a [Fault].
func (s *Settings) Against(assignments []string) (*Settings, error) {
	other := *s
	given, faults := other.assign(assignments)
	is := other.keys()
	for i, key := range s.keys() {
		mine, its := origin(key.server), origin(is[i].server)
		if !given[key.name] && key.value != "" && its != "" && mine != its { // "": is sent nowhere, or no address
			faults.add("--against", "the %s that is set is for %s, and is not sent to %s: add --against %s=…, with nothing behind the = where there is none", key.name, mine, its, key.name)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, Fault{err}
	}
	if err := other.Check(); err != nil {
		return nil, Fault{fmt.Errorf("the settings of --against have to be mended:\n%w", err)}
	}
	if !given["BOT_MODEL_PRICE"] && !slices.Equal(s.modelAsked(), other.modelAsked()) {
		other.ModelPrice = nil
	}
	return &other, nil
}

// assign puts in what is given, and returns the names of that.
func (s *Settings) assign(assignments []string) (given map[string]bool, faults faults) {
	given = map[string]bool{}
	for _, each := range assignments {
		name, value, ok := strings.Cut(each, "=") // the value may be a secret
		at := fieldOf(name)
		switch {
		case !ok || at < 0:
			faults.add("--against", "%q is no setting and its value, such as %s=…", name, settingNear(name))
			continue
		case !planning(name):
			faults.add("--against", "%s changes no plan: it is no setting of models, prompts, skills or the planner", name)
		case given[name]:
			faults.add("--against", "%s is given twice", name)
		}
		given[name] = true
		field := reflect.TypeFor[Settings]().Field(at)
		s.set(name, value, field.Tag, reflect.ValueOf(s).Elem().Field(at))
	}
	return given, faults
}

// planning reports whether plans, or what they cost, may depend on a setting.
func planning(variable string) bool {
	prefixes := []string{"OPENAI_", "AZURE_OPENAI_", "BOT_FALLBACK_", "BOT_MODEL_", "BOT_REASONING_EFFORT", "BOT_MAX_TOKENS_FIELD", "BOT_PLANNER", "BOT_RESPONSE_FORMAT", "BOT_PROMPTS_", "BOT_SKILLS_"}
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(variable, prefix) })
}

// settingNear is the variable that may be meant by a name, or else an example of one.
func settingNear(name string) string {
	var all []string
	fields := reflect.TypeFor[Settings]()
	for i := range fields.NumField() {
		all = append(all, strings.Split(fields.Field(i).Tag.Get("env"), ",")...)
	}
	all = slices.DeleteFunc(all, func(variable string) bool { return !planning(variable) })
	wrong := spelling.Plain(name[:min(len(name), 100)])
	near := spelling.Nearest(all, func(variable string) (int, bool) {
		edits := spelling.Edits(wrong, spelling.Plain(variable))
		return edits, edits <= 2
	})
	return append(near, "OPENAI_MODEL")[0]
}

// serverKey is a key, and the server that it is sent to.
type serverKey struct{ name, value, server string }

func (s *Settings) keys() []serverKey {
	return []serverKey{
		{"OPENAI_API_KEY", s.OpenAIKey, cmp.Or(s.OpenAIBaseURL, models.DefaultBaseURL)},
		{"AZURE_OPENAI_API_KEY", s.AzureKey, s.AzureEndpoint},
		{"BOT_FALLBACK_API_KEY", s.FallbackKey, cmp.Or(s.FallbackBaseURL, models.DefaultBaseURL)},
	}
}

// origin is the server of an address, "" when it has none.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// modelAsked says which model is asked, and which after it: what a price is for.
func (s *Settings) modelAsked() []string {
	behind := append(slices.Clone(s.FallbackModels), s.FallbackBaseURL)
	if s.AzureEndpoint != "" {
		return append(behind, s.AzureEndpoint, s.AzureDeployment)
	}
	return append(behind, cmp.Or(s.OpenAIBaseURL, models.DefaultBaseURL), cmp.Or(s.OpenAIModel, models.DefaultModel))
}
