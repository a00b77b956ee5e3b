package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/page"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan context.Context), make(chan error)
	c := setup(t, set{parts: page.Parts{
		Settings: []page.Setting{
			{Name: "OPENAI_API_KEY", From: "the environment, as OPENAI_API_KEY", About: "key", Secret: true},
			{Name: "BOT_STATE", From: "a flag", About: "where state lives", Value: "redis"},
			{Name: "BOT_NAME", From: "a flag", About: "name"},
			{Name: "BOT_PLANNER", About: hostile + strings.Repeat("D", 1<<20), Default: "sequence"},
		},
		Doctor: func(ctx context.Context) ([]app.Check, error) {
			asked <- ctx
			return []app.Check{
				{Name: "model", Status: "fail", Detail: hostile + strings.Repeat("E", 1<<20), Hint: "set OPENAI_API_KEY"}, {Name: "redis", Status: "ok", Detail: "fine"},
			}, <-answer
		},
	}})
	body := c.get("/dev/settings")
	noScript(t, body)
	for _, want := range []string{`data-setting="OPENAI_API_KEY" data-set`, `data-setting="BOT_PLANNER">`, `<span class="label">secret</span>`, "Examine the settings"} {
		if !strings.Contains(body, want) {
			t.Errorf("the view lacks %q", want)
		}
	}
	for query, want := range map[string]string{"name": "BOT_NAME", "LIVES": "BOT_STATE"} {
		if body := c.get("/dev/settings?q=" + query); strings.Count(body, "data-setting=") != 1 || !strings.Contains(body, `data-setting="`+want) {
			t.Errorf("%s: %s", query, body)
		}
	}
	if strings.Count(body, "not shown<") != 2 {
		t.Errorf("set are %s", body)
	}
	if status, _, _ := c.do("GET", "/dev/settings/doctor", nil); status != http.StatusNotFound {
		t.Errorf("GET has an effect: %d", status)
	}
	if status, body, _ := c.do("GET", "/dev/nothing.json", nil); status != http.StatusNotFound || body != "{\n  \"error\": \"There is no such page.\"\n}\n" {
		t.Errorf("a twin that is not there: %d %s", status, body)
	}
	if status, _, _ := c.do("POST", "/dev/settings", nil); status != http.StatusMethodNotAllowed {
		t.Errorf("another method: %d", status)
	}
	done := make(chan string)
	go func() {
		var out struct {
			Doctor struct{ Checks []app.Check }
		}
		status := c.post("/dev/settings/doctor", url.Values{}, &out)
		done <- http.StatusText(status) + " " + out.Doctor.Checks[1].Name
	}()
	ctx := <-asked
	if _, bounded := ctx.Deadline(); !bounded {
		t.Error("the doctor has no deadline")
	}
	if status, _, _ := c.do("POST", "/dev/settings/doctor", url.Values{"token": {c.token}}, "Accept", "text/html"); status != http.StatusConflict {
		t.Errorf("two at once: %d", status)
	}
	answer <- nil
	if got := <-done; got != "OK redis" {
		t.Errorf("a script gets %s", got)
	}
	body = c.get("/dev/settings")
	noScript(t, body)
	if !strings.Contains(body, `data-check="model" data-status="fail"`) || !strings.Contains(body, "set OPENAI_API_KEY") {
		t.Error("the view lacks what the doctor said")
	}
	go func() { <-asked; answer <- errors.New("it is ill") }()
	if body := c.submit("/dev/settings/doctor", url.Values{}); !strings.Contains(body, "it is ill") {
		t.Error("the view lacks why the doctor failed")
	}
	var twin struct {
		Version  int
		Settings []map[string]any
		Doctor   struct{ Fault string }
	}
	if err := json.Unmarshal([]byte(c.get("/dev/settings.json")), &twin); err != nil || twin.Version != 1 || twin.Settings[0]["secret"] != true || twin.Settings[0]["value"] != nil || twin.Doctor.Fault != "it is ill" {
		t.Errorf("the JSON: %v %+v", err, twin)
	}
}
