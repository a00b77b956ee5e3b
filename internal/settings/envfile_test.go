package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fromFile are the settings that a .env file with that text makes, with these flags.
func fromFile(t *testing.T, text string, flags env) (*Settings, error) {
	t.Helper()
	s := &Settings{Bot: Bot{Name: "Hedda"}, texts: map[string]string{}}
	for variable, value := range flags {
		s.texts[variable] = value
	}
	path := filepath.Join(t.TempDir(), ".env")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	err := s.ReadEnvFile(path)
	s.Load()
	return s, err
}

func TestEnvFile(t *testing.T) {
	t.Parallel()
	const teams = "CLIENT_ID=" + guid + "\nCLIENT_SECRET=a~b.c-d_e\nTENANT_ID=" + guid + "\n"
	for name, c := range map[string]struct {
		text  string
		flags env
		want  func(*Settings) bool
	}{
		"of Teams": {teams, nil, func(s *Settings) bool {
			return s.AppID == guid && s.AppPassword == "a~b.c-d_e" && s.AppTenant == guid && s.Check() != nil // no model yet
		}},
		"settings":           {"# mine\nexport BOT_PLANNER = tools # why\nPORT='81'\n\n", nil, func(s *Settings) bool { return s.Planner == "tools" && s.Listen() == "127.0.0.1:81" }},
		"both names":         {teams + "MICROSOFT_APP_PASSWORD=own\n", nil, func(s *Settings) bool { return s.AppPassword == "own" && s.AppID == guid }},
		"the other spelling": {"MicrosoftAppId=" + guid, nil, func(s *Settings) bool { return s.AppID == guid }},
		"a flag wins":        {"BOT_PLANNER=tools", env{"BOT_PLANNER": "sequence"}, func(s *Settings) bool { return s.Planner == "sequence" }},
		"of another app": {teams, env{"MICROSOFT_APP_ID": "another"}, func(s *Settings) bool {
			return s.AppID == "another" && s.AppPassword == "" && s.AppTenant == ""
		}},
		"of the same app": {teams, env{"MICROSOFT_APP_ID": guid}, func(s *Settings) bool { return s.AppPassword != "" }},
		"Windows":         {"\ufeffBOT_PLANNER=tools\r\nPORT=81\r\n", nil, func(s *Settings) bool { return s.Planner == "tools" && s.Listen() == "127.0.0.1:81" }},
		"under bot.yaml": {"BOT_PLANNER=tools", nil, func(s *Settings) bool {
			s.Default(map[string]string{"BOT_PLANNER": "sequential"})
			return s.Planner == "tools"
		}},
		"for a child": {teams, env{"PORT": "1"}, func(s *Settings) bool {
			return slices.Equal(s.Environ(), []string{"MICROSOFT_APP_ID=" + guid, "MICROSOFT_APP_PASSWORD=a~b.c-d_e", "MICROSOFT_APP_TENANT_ID=" + guid, "PORT=1"})
		}},
		"a typo": {"BOT_PLANER=tools", nil, func(s *Settings) bool {
			return s.Check() == nil && strings.Contains(strings.Join(s.Warnings(), "\n"), "BOT_PLANNER")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := fromFile(t, c.text, c.flags)
			if err != nil || !c.want(s) || s.EnvFile == "" {
				t.Errorf("%v, %+v", err, s)
			}
		})
	}
}

// TestEnvFileRefuses: no file switches authentication off, and no secret is shown.
func TestEnvFileRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"open":         {"BOT_DANGEROUSLY_NO_AUTH=true", "BOT_DANGEROUSLY_NO_AUTH: counts only from a flag or the environment"},
		"own keys":     {"BOT_OPENID_METADATA_URL=https://example.com", "BOT_OPENID_METADATA_URL: counts only"},
		"own login":    {"export BOT_LOGIN_URL='https://example.com'", "BOT_LOGIN_URL: counts only"},
		"no equals":    {"A=b\ns3cret\nBOT_ADDR=x", ".env:2: missing =\nBOT_ADDR: "},
		"an open text": {`A="s3cret`, ".env:1: unmatched"},
		"too long":     {strings.Repeat("# s3cret\n", maxEnvFile/8), "more than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := fromFile(t, c.text, nil)
			if err == nil {
				err = s.Check()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") || s.NoAuth {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestEnvironmentWinsOverTheFile(t *testing.T) {
	t.Setenv("MicrosoftAppId", "another")
	t.Setenv("BOT_PLANNER", "sequence")
	t.Setenv("CLIENT_SECRET", "nobody's")
	s, err := fromFile(t, "MICROSOFT_APP_ID="+guid+"\nBOT_PLANNER=tools\nCLIENT_ID=x\n", nil)
	if err != nil || s.AppID != "another" || s.Planner != "sequence" || s.AppPassword != "" {
		t.Errorf("%v, %+v", err, s)
	}
}
