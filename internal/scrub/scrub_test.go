package scrub_test

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/scrub"
)

// secretive is a secret in parts, so that nobody who looks for secrets finds one here.
func secretive(parts ...string) string { return strings.Join(parts, "") }

func TestSecrets(t *testing.T) {
	t.Parallel()
	s := scrub.New("", "abc", "correct horse")
	jwt := secretive("ey", "J0eXAiOiJKV1Qi", ".ey", "J0eXAiOiJKV1Qi", ".c2ln")
	for text, want := range map[string]string{
		"the correct horse, abc":                                                       "the [secret], abc",
		"Authorization: Bearer abcdefgh12":                                             "Authorization: [secret]",
		`{"authorization":"Bearer abcdefgh12"}`:                                        `{"authorization":"[secret]"}`,
		"say bearer abcdefgh12 now":                                                    "say bearer [secret] now",
		"it is " + jwt + ", you see":                                                   "it is [secret], you see",
		"key " + secretive("sk", "-proj-0123456789abcdef"):                             "key [secret]",
		secretive("gh", "p_0123456789012345678901"):                                    "[secret]",
		secretive("abc8", "Q~", "0123456789abcdefghijklmnop"):                          "[secret]",
		"redis://user:hunter2@host:6379/0 and http://host:80/x":                        "redis://[secret]@host:6379/0 and http://host:80/x",
		"rediss://:hunter2@host":                                                       "rediss://[secret]@host",
		`password=hunter2&x=1, "api_key": "k-1-2-3", pwd: "abc"`:                       `password=[secret]&x=1, "api_key": "[secret]", pwd: "[secret]"`,
		`{\"client_secret\":\"hunter2\"}`:                                              `{\"client_secret\":\"[secret]\"}`,
		"https://x.blob/y?se=1&sig=abc%2Fdef&sp=r":                                     "https://x.blob/y?se=1&sig=[secret]&sp=r",
		"-----BEGIN RSA PRIVATE KEY-----\nMII\n" + "-----END RSA PRIVATE KEY-----\nso": "[secret]\nso",
		`"token": {"type": "string"}, tokens: 10`:                                      `"token": {"type": "string"}, tokens: 10`,
		"the secret is out":                                                            "the secret is out",
	} {
		if got := s.Text(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		if got := s.Text(want); got != want {
			t.Errorf("%q is no end: %q", want, got)
		}
	}
}

func TestStandIns(t *testing.T) {
	t.Parallel()
	s := scrub.New()
	for _, c := range []struct{ got, want string }{
		{s.Name("29:1abcdef", "Mia Rossi"), "user-1"},
		{s.Name("29:1abcdef", "Mia"), "user-1"},
		{s.Name("29:2abcdef", "水哥"), "user-2"},
		{s.Name("u", "Al"), "user-3"},
		{s.ID(scrub.Conversation, "19:deadbeef@thread.tacv2"), "conversation-1"},
		{s.ID(scrub.Conversation, "c"), "conversation-2"},
		{s.ID(scrub.Conversation, "c"), "conversation-2"},
		{s.ID(scrub.Activity, "c"), "activity-1"},
		{s.ID(scrub.Tenant, "6F9619FF-8B86-D011-B42D-00CF4FC964FF"), "tenant-1"},
		{s.ID(scrub.Person, ""), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	for _, c := range [][2]string{
		{"Mia Rossi and Mia, Rossi's; Miami, mia c u Al", "user-1 and user-1, user-1's; Miami, mia c u Al"},
		{"帮水哥写诗", "帮user-2写诗"},
		{"29:1abcdef in 19:deadbeef@thread.tacv2;messageid=1", "user-1 in conversation-1;messageid=1"},
		{"29:9999999999999999999 is new", "user-4 is new"},
		{"8:orgid:6f9619ff-8b86-d011-b42d-00cf4fc964f0", "user-5"},
		{"write to mia.rossi@contoso.com, Mia.Rossi@contoso.com or person-1@example.com", "write to person-1@example.com, person-1@example.com or person-1@example.com"},
		{"6F9619FF-8B86-D011-B42D-00CF4FC964FF", "tenant-1"},
		{"6f9619ff-8b86-d011-b42d-00cf4fc964f1", "00000000-0000-0000-0000-000000000001"},
		{"", ""},
	} {
		if got := s.Text(c[0]); got != c[1] {
			t.Errorf("%q became %q, want %q", c[0], got, c[1])
		}
	}
}
