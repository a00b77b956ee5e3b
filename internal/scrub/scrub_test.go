package scrub_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/planbot-go/planbot/internal/scrub"
)

// secretive is a secret in parts, so that nobody who looks for secrets finds one here.
func secretive(parts ...string) string { return strings.Join(parts, "") }

func TestSecrets(t *testing.T) {
	t.Parallel()
	s := scrub.New("", "abc", "correct horse")
	jwt := secretive("ey", "J0eXAiOiJKV1Qi", ".ey", "J0eXAiOiJKV1Qi", ".c2ln")
	for text, want := range map[string]string{
		"the correct horse, abc":                                                                       "the [secret], abc",
		"Authorization: Bearer abcdefgh12":                                                             "Authorization: [secret]",
		`{"authorization":"Bearer abcdefgh12"}`:                                                        `{"authorization":"[secret]"}`,
		"say bearer abcdefgh12 now":                                                                    "say bearer [secret] now",
		"it is " + jwt + ", you see":                                                                   "it is [secret], you see",
		"key " + secretive("sk", "-proj-0123456789abcdef"):                                             "key [secret]",
		secretive("gh", "p_0123456789012345678901"):                                                    "[secret]",
		secretive("abc8", "Q~", "0123456789abcdefghijklmnop"):                                          "[secret]",
		"redis://user:hunter2@host:6379/0 and http://host:80/x":                                        "redis://[secret]@host:6379/0 and http://host:80/x",
		"rediss://:hunter2@host":                                                                       "rediss://[secret]@host",
		`password=hunter2&x=1, "api_key": "k-1-2-3", pwd: "abc"`:                                       `password=[secret]&x=1, "api_key": "[secret]", pwd: "[secret]"`,
		`{\"client_secret\":\"hunter2\"}`:                                                              `{\"client_secret\":\"[secret]\"}`,
		"https://x.blob/y?se=1&sig=abc%2Fdef&sp=r":                                                     "https://x.blob/y?se=1&sig=[secret]&sp=r",
		"-----BEGIN RSA PRIVATE KEY-----\nMII\n" + "-----END RSA PRIVATE KEY-----\nso":                 "[secret]\nso",
		`"token": {"type": "string"}, tokens: 10`:                                                      `"token": {"type": "string"}, tokens: 10`,
		"the secret is out":                                                                            "the secret is out",
		secretive("sk", "_live_4eC39HqLyjWDarjt") + " " + secretive("rk", "_test_4eC39HqLyjWDarjt"):    "[secret] [secret]",
		secretive("gl", "pat-ABCdef123456ghiJKL78") + "," + secretive("hf", "_AbCdEfGhIjKlMnOpQrStUv"): "[secret],[secret]",
		secretive("np", "m_AbCdEfGhIjKlMnOpQrStUv") + "," + secretive("py", "pi-AgEIcHlwaS5vcmcCJDU5"): "[secret],[secret]",
		"https://hooks." + "slack.com/services/T00000000/B00000000/XXXXXXXXXXXX now":                   "https://hooks.slack.com/services/[secret] now",
		"https://contoso.webhook." + "office.com/webhookb2/aa@bb/IncomingWebhook/01/cc":                "https://contoso.webhook.office.com/webhookb2/[secret]",
		"my password is Hunter2Xyz.":                                                                   "my password is [secret].",
		"das Passwort ist Geheim99, la password è Segreta55":                                           "das Passwort ist [secret], la password è [secret]",
		"Passwort: Geheim88, 密码：geheim66 密码是geheim77":                                                  "Passwort: [secret], 密码：[secret] 密码是[secret]",
		"pass: Short55 and --password cliword and --api-key=k1k2k3":                                    "pass: [secret] and --password [secret] and --api-key=[secret]",
		"password: Hunter2Abc! or **Password:** a&b8;x*y":                                              "password: [secret] or **Password:** [secret]",
		"secret = 'a b c' and clientSecret=\"x y\" token: `a b`":                                       "secret = '[secret]' and clientSecret=\"[secret]\" token: `[secret]`",
		"invalid_api_key: thekey, password: thesecret":                                                 "invalid_api_key: [secret], password: [secret]",
		"password: 'the', invalid_api_key: the-1, x":                                                   "password: '[secret]', invalid_api_key: [secret], x",
		"pwd=a1b2c3\nnext":                 "pwd=[secret]\nnext",
		`{\"pwd\":\"a b\"}, pwd: "C:\x y"`: `{\"pwd\":\"[secret]\"}, pwd: "[secret]"`,
	} {
		if got := s.Text(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		if got := s.Text(want); got != want {
			t.Errorf("%q is no end: %q", want, got)
		}
	}
}

// TestFormsOfSecrets: a secret is found however a program writes it.
func TestFormsOfSecrets(t *testing.T) {
	t.Parallel()
	const secret = `key<é>"&/+?~ 17`
	s := scrub.New(secret)
	raw := []byte(secret)
	inJSON, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, form := range map[string]string{
		"hex": hex.EncodeToString(raw), "HEX": strings.ToUpper(hex.EncodeToString(raw)), "query": url.QueryEscape(secret), "path": url.PathEscape(secret),
		"base64": base64.StdEncoding.EncodeToString(raw), "without padding": base64.RawStdEncoding.EncodeToString(raw),
		"base64url": base64.URLEncoding.EncodeToString(raw), "base64url without padding": base64.RawURLEncoding.EncodeToString(raw),
		"JSON": string(inJSON[1 : len(inJSON)-1]), "HTML": html.EscapeString(secret),
		"all in %": each("%%%02X", []byte(secret)), "all in small %": each("%%%02x", []byte(secret)), "all in &#": each("&#%d;", []rune(secret)),
		"all in &#x": each("&#x%x;", []rune(secret)), `all in \u`: each(`\u%04x`, []rune(secret)),
		"small escapes": regexp.MustCompile("%..").ReplaceAllStringFunc(url.QueryEscape(secret), strings.ToLower),
	} {
		if got := s.Text("it is " + form + " here"); got != "it is [secret] here" {
			t.Errorf("%s: %q became %q", name, form, got)
		}
	}
	for i := range 6 { // as a part of something longer
		for _, alphabet := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
			if got := s.Text(alphabet.EncodeToString([]byte("mia:x"[:i%6] + secret + "abcdef"[i:]))); !strings.Contains(got, "[secret]") || strings.Contains(got, base64.RawStdEncoding.EncodeToString(raw)[4:12]) {
				t.Errorf("behind %d bytes: %q", i, got)
			}
		}
	}
}

// TestSomeEscaped: any characters of a secret may be escaped, and what is escaped once more.
func TestSomeEscaped(t *testing.T) {
	t.Parallel()
	const secret = `key<é𝄞>"&/+?~ 17`
	s := scrub.NewSecrets("another secret", secret)
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var form strings.Builder
		for _, r := range secret {
			ways := []string{
				string(r), each("%%%02x", []byte(string(r))), each("%%%02X", []byte(string(r))), fmt.Sprintf("&#%d;", r), fmt.Sprintf("&#x%X;", r),
				html.EscapeString(string(r)), url.QueryEscape(string(r)), each(`\u%04x`, utf16.Encode([]rune{r})),
			}
			if r < utf8.RuneSelf {
				ways = append(ways, fmt.Sprintf(`\x%02x`, r))
			}
			form.WriteString(ways[random.IntN(len(ways))])
		}
		once := `it is &lt;\u0041` + form.String() + `%20\u0042, ` + form.String() + " &gt; here"
		twice, err := json.Marshal(once)
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]string{
			once: `it is &lt;\u0041[secret]%20\u0042, [secret] &gt; here`, string(twice): `"it is \u0026lt;\\u0041[secret]%20\\u0042, [secret] \u0026gt; here"`,
		} {
			if got := s.Hide(text); got != want {
				t.Fatalf("%s\nbecame %s\nwant   %s", text, got, want)
			}
		}
	}
}

// each writes each unit of a text.
func each[T any](format string, units []T) string {
	var out strings.Builder
	for _, unit := range units {
		fmt.Fprintf(&out, format, unit)
	}
	return out.String()
}

// TestSentences: what people say about such things stays.
func TestSentences(t *testing.T) {
	t.Parallel()
	s := scrub.New()
	s.Name("29:1", "Mark Will")
	s.Name("29:2", "Plan Type")
	s.Name("29:3", "User")
	for _, text := range []string{
		"my password is wrong, and the password is required", "das Passwort ist falsch", "the flags --password, --token",
		"they pass: all of them", "basic understanding, bearer instruments", "the token is expired", "a secret santa for everybody",
		"password reset at 10:30", "max_tokens: 10, tokens: 20", "the design=good", "sk-learn and hf_x and npm_run", "see 密码 and 口令",
		"I will mark it", `{"type":"plan","commands":[]}`, "user-1 in conversation-1 of tenant-1 at person-1@example.com", "[secret]", "1:1 with 19: and 29: people",
		"invalid_api_key: the server does not know it", "OPENAI_API_KEY: Incorrect API key provided", "the secret: you must not tell",
		"Everybody passes. Is it secret? It is.", "https://host:8080/a@b?x=1",
	} {
		if got := s.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
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
		{"MIA ROSSI, mia rossi, ROSSI, rossi; C:\\mia.rossi", "user-1, user-1, user-1, user-1; C:\\mia.user-1"},
		{"Mia\\nRossi\\tRossi \\u00fcRossi %22Rossi%22", "user-1\\nuser-1\\tuser-1 \\u00fcuser-1 %22user-1%22"},
		{"/19%3adeadbeef%40thread.tacv2/x?o=%22" + "6f9619ff-8b86-d011-b42d-00cf4fc964f1%22&u=29%3A1abcdef", "/conversation-1/x?o=%2200000000-0000-0000-0000-000000000001%22&u=user-1"},
		{"/19%3ameeting_Ab%40thread.v2/0 is 19:meeting_Ab@thread.v2", "/conversation-3/0 is conversation-3"},
		{"jürgen@exämple.de, 写信给a@b.com吧", "person-1@example.com, 写信给person-2@example.com吧"},
		{"帮水哥写诗", "帮user-2写诗"},
		{"It is from \"Al\".\nAl", "It is from \"user-3\".\nAl"},
		{"29:1abcdef in 19:deadbeef@thread.tacv2;messageid=1", "user-1 in conversation-1;messageid=1"},
		{"29:9999999999999999999 is new", "user-4 is new"},
		{"8:orgid:6f9619ff-8b86-d011-b42d-00cf4fc964f0", "user-5"},
		{"write to mia.rossi@contoso.com, Mia.Rossi@contoso.com or person-1@example.com", "write to person-3@example.com, person-3@example.com or person-1@example.com"},
		{"6F9619FF-8B86-D011-B42D-00CF4FC964FF", "tenant-1"},
		{"6f9619ff-8b86-d011-b42d-00cf4fc964f1", "00000000-0000-0000-0000-000000000001"},
		{"", ""},
	} {
		if got := s.Text(c[0]); got != c[1] {
			t.Errorf("%q became %q, want %q", c[0], got, c[1])
		}
	}
}
