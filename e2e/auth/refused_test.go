package auth_test

import (
	"bytes"
	"compress/gzip"
	"crypto"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// changes are what is wrong with a request, by what that is.
type changes map[string]func(a *attempt)

func TestNobodyGetsInWhoShouldNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.works()
	first := w.good()
	first.token.header["kid"] = "asked-for-once" // which loads the keys anew, this once
	if got := w.send(first); got.status != http.StatusUnauthorized {
		t.Errorf("an unknown key: %d", got.status)
	}
	tried := 0
	for _, group := range []struct {
		changes changes
		want    []int
	}{
		{credentials(), []int{http.StatusUnauthorized}},
		{tokenHeaders(), []int{http.StatusUnauthorized}},
		{signatures(), []int{http.StatusUnauthorized}},
		{claims(), []int{http.StatusUnauthorized}},
		{foreignService(), []int{http.StatusUnauthorized}},
		{forbiddenHosts(), []int{http.StatusBadRequest, http.StatusUnauthorized}},
		{methods(), []int{http.StatusMethodNotAllowed}},
		{contents(), []int{http.StatusUnsupportedMediaType}},
		{sizes(), []int{http.StatusRequestEntityTooLarge}},
		{bodies(), []int{http.StatusBadRequest}},
		{fields(), []int{http.StatusBadRequest}},
		{invokes(), []int{http.StatusNotImplemented, http.StatusBadRequest}},
		{paths(), []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusMovedPermanently, http.StatusTemporaryRedirect}},
	} {
		for _, name := range slices.Sorted(maps.Keys(group.changes)) {
			a := w.good()
			group.changes[name](a)
			w.refused(name, a, group.want...)
			tried++
		}
		w.works()
	}
	t.Logf("%d requests were refused", tried)
	if tried < 200 {
		t.Errorf("only %d requests were tried", tried)
	}
	w.none()
	w.logIsClean()
}

func credentials() changes {
	with := func(values ...string) func(*attempt) {
		return func(a *attempt) { a.bearer = append([]string{}, values...) }
	}
	of := func(form func(token string) []string) func(*attempt) {
		return func(a *attempt) { a.bearer = form(a.token.String()) }
	}
	return changes{
		"no credentials":           with(),
		"empty":                    with(""),
		"a scheme alone":           with("Bearer"),
		"null":                     with("Bearer null"),
		"only dots":                with("Bearer .."),
		"thousands of dots":        with("Bearer " + strings.Repeat(".", 30_000)),
		"a long token":             with("Bearer " + strings.Repeat("a", 10_000) + "." + strings.Repeat("b", 10_000) + ".c"),
		"basic":                    with("Basic dXNlcjpwYXNzd29yZA=="),
		"lower case":               of(func(k string) []string { return []string{"bearer " + k} }),
		"upper case":               of(func(k string) []string { return []string{"BEARER " + k} }),
		"no scheme":                of(func(k string) []string { return []string{k} }),
		"no space":                 of(func(k string) []string { return []string{"Bearer" + k} }),
		"two spaces":               of(func(k string) []string { return []string{"Bearer  " + k} }),
		"a tab":                    of(func(k string) []string { return []string{"Bearer\t" + k} }),
		"a word more":              of(func(k string) []string { return []string{"Bearer " + k + " x"} }),
		"a comma":                  of(func(k string) []string { return []string{"Bearer " + k + ","} }),
		"two in one":               of(func(k string) []string { return []string{"Bearer " + k + ", Bearer " + k} }),
		"twice":                    of(func(k string) []string { return []string{"Bearer " + k, "Bearer " + k} }),
		"a good one behind others": of(func(k string) []string { return []string{"Bearer x", "Bearer " + k} }),
		"an empty one before":      of(func(k string) []string { return []string{"", "Bearer " + k} }),
		"quoted":                   of(func(k string) []string { return []string{`Bearer "` + k + `"`} }),
		"two parts":                of(func(k string) []string { return []string{"Bearer " + k[:strings.LastIndex(k, ".")]} }),
		"no signature":             of(func(k string) []string { return []string{"Bearer " + k[:strings.LastIndex(k, ".")+1]} }),
		"four parts":               of(func(k string) []string { return []string{"Bearer " + k + ".e30"} }),
		"five parts":               of(func(k string) []string { return []string{"Bearer " + k + ".e30.e30"} }),
		"padding":                  of(func(k string) []string { return []string{"Bearer " + k + "=="} }),
		"other alphabet": of(func(k string) []string {
			return []string{"Bearer " + strings.NewReplacer("-", "+", "_", "/").Replace(k) + "+/"}
		}),
		"not ASCII": of(func(k string) []string { return []string{"Bearer " + k + "é"} }),
		"in the query": func(a *attempt) {
			a.path += "?access_token=" + a.token.String()
			a.bearer = []string{}
		},
		"in a cookie": func(a *attempt) {
			a.header.Set("Cookie", "Authorization=Bearer "+a.token.String())
			a.bearer = []string{}
		},
		"in another header": func(a *attempt) {
			a.header.Set("Proxy-Authorization", "Bearer "+a.token.String())
			a.header.Set("X-Forwarded-Authorization", "Bearer "+a.token.String())
			a.bearer = []string{}
		},
		"from this machine, it says": func(a *attempt) {
			a.header.Set("X-Forwarded-For", "127.0.0.1")
			a.bearer = []string{}
		},
		"the playground's dummy": func(a *attempt) {
			a.header.Set("x-ms-agents-playground", "true")
			a.token.header = object{"typ": "JWT", "alg": "HS256"}
			a.token.claims = object{"serviceurl": a.activity["serviceUrl"], "iat": time.Now().Unix()}
			a.token.sign = withPublicKey
		},
	}
}

func tokenHeaders() changes {
	with := func(name string, value any) func(*attempt) {
		return func(a *attempt) { a.token.header[name] = value }
	}
	alg := func(name string, sign func([]byte) []byte) func(*attempt) {
		return func(a *attempt) { a.token.header["alg"], a.token.sign = name, sign }
	}
	raw := func(header string) func(*attempt) {
		return func(a *attempt) { a.token.rawHeader = header }
	}
	const attacker = "https://attacker.example/keys"
	return changes{
		"alg none, no signature":    alg("none", unsigned),
		"alg none":                  alg("none", signedBy(goodKey, crypto.SHA256)),
		"alg nOnE":                  alg("nOnE", unsigned),
		"no alg":                    func(a *attempt) { delete(a.token.header, "alg") },
		"alg empty":                 alg("", unsigned),
		"alg a number":              with("alg", 256),
		"alg a list":                with("alg", []string{"RS256"}),
		"alg in lower case":         with("alg", "rs256"),
		"HS256 with the public key": alg("HS256", withPublicKey),
		"PS256":                     alg("PS256", withPSS),
		"PS256, it says RS256":      alg("RS256", withPSS),
		"RS384":                     alg("RS384", signedBy(goodKey, crypto.SHA384)),
		"RS512":                     alg("RS512", signedBy(goodKey, crypto.SHA512)),
		"ES256":                     func(a *attempt) { a.token.header["alg"], a.token.header["kid"] = "ES256", curveKey },
		"EC key for RS256":          with("kid", curveKey),
		"no kid":                    func(a *attempt) { delete(a.token.header, "kid") },
		"kid empty":                 with("kid", ""),
		"kid null":                  with("kid", nil),
		"kid a number":              with("kid", 1),
		"kid an object":             with("kid", object{"id": goodKey}),
		"kid unknown":               with("kid", "unknown"),
		"kid in upper case":         with("kid", strings.ToUpper(goodKey)),
		"kid a path":                with("kid", "../../../../etc/passwd"),
		"kid a query":               with("kid", "x' OR '1'='1"),
		"kid of 10 KB":              with("kid", strings.Repeat("k", 10_000)),
		"kid with NUL":              with("kid", goodKey+"\x00"),
		"jku":                       func(a *attempt) { a.token.header["kid"], a.token.header["jku"] = "theirs", attacker },
		"jku and our kid":           func(a *attempt) { a.token.header["jku"] = attacker; a.token.sign = signedBy("attacker", crypto.SHA256) },
		"x5u":                       func(a *attempt) { a.token.header["x5u"] = attacker; a.token.sign = signedBy("attacker", crypto.SHA256) },
		"jwk": func(a *attempt) {
			a.token.header["jwk"] = published("attacker", "msteams")
			a.token.sign = signedBy("attacker", crypto.SHA256)
		},
		"jwk of none": func(a *attempt) {
			delete(a.token.header, "kid")
			a.token.header["jwk"] = published("attacker", "msteams")
			a.token.sign = signedBy("attacker", crypto.SHA256)
		},
		"x5c": func(a *attempt) {
			a.token.header["x5c"] = []string{"MIIB"}
			a.token.sign = signedBy("attacker", crypto.SHA256)
		},
		"crit":            with("crit", []string{"exp"}),
		"b64 false":       func(a *attempt) { a.token.header["b64"], a.token.header["crit"] = false, []string{"b64"} },
		"no JSON":         raw("alg=RS256"),
		"a list":          raw(`["RS256"]`),
		"null header":     raw("null"),
		"cut off":         raw(`{"alg":"RS256","kid":"good"`),
		"deep":            raw(`{"alg":"RS256","kid":"good","x":` + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + "}"),
		"invalid UTF-8":   raw("{\"alg\":\"RS256\",\"kid\":\"good\xff\"}"),
		"alg with a tail": raw(`{"alg":"RS256 ","kid":"good"}`),
	}
}

func signatures() changes {
	return changes{
		"of another key": func(a *attempt) { a.token.sign = signedBy("attacker", crypto.SHA256) },
		"of nothing":     func(a *attempt) { a.token.sign = func([]byte) []byte { return make([]byte, 256) } },
		"of one byte":    func(a *attempt) { a.token.sign = func([]byte) []byte { return []byte{1} } },
		"too long": func(a *attempt) {
			a.token.sign = func(in []byte) []byte { return append(signedBy(goodKey, crypto.SHA256)(in), 0) }
		},
		"of other claims": func(a *attempt) {
			parts, others := strings.Split(a.token.String(), "."), *a.token
			others.claims = object{"iss": issuer, "aud": appID, "exp": 9999999999, "nbf": 1, "serviceurl": a.activity["serviceUrl"]}
			a.bearer = []string{"Bearer " + parts[0] + "." + strings.Split(others.String(), ".")[1] + "." + parts[2]}
		},
		"one bit": func(a *attempt) {
			a.token.sign = func(in []byte) []byte {
				s := signedBy(goodKey, crypto.SHA256)(in)
				s[100] ^= 1
				return s
			}
		},
		"a key for other channels": func(a *attempt) {
			a.token.header["kid"], a.token.sign = webchatKey, signedBy(webchatKey, crypto.SHA256)
		},
		"a key for no channel": func(a *attempt) {
			a.token.header["kid"], a.token.sign = bareKey, signedBy(bareKey, crypto.SHA256)
		},
		"channel AseChannel":    func(a *attempt) { a.activity["channelId"] = "AseChannel" },
		"channel emulator":      func(a *attempt) { a.activity["channelId"] = "emulator" },
		"channel in upper case": func(a *attempt) { a.activity["channelId"] = "MSTEAMS" },
		"channel with a space":  func(a *attempt) { a.activity["channelId"] = "msteams " },
		"no channel":            func(a *attempt) { delete(a.activity, "channelId") },
		"channel empty":         func(a *attempt) { a.activity["channelId"] = "" },
	}
}

func claims() changes {
	all := changes{}
	now := time.Now().Unix()
	for name, values := range map[string][]any{
		"iss": {
			nil, "", issuer + "/", strings.ToUpper(issuer), "http://api.botframework.com", "https://api.botframework.us", "https://api.botframework.azure.cn",
			issuer + ".evil.example", " " + issuer, "https://sts.windows.net/" + tenantID + "/", "https://login.microsoftonline.com/" + tenantID + "/v2.0", 7,
			[]string{issuer},
		},
		"aud": {
			nil, "", "another-app", appID + " ", appID[:35], "api://" + appID + "/x", "https://" + appID, issuer, 7, []string{}, []string{"another-app"}, []any{appID, 7}, object{"id": appID},
		},
		"exp":        {nil, "", now - 301, fmt.Sprint(now + 3600), true, []int64{now + 3600}, 0, -1, 1e300, json.RawMessage("1e999")},
		"nbf":        {nil, "", now + 310, fmt.Sprint(now), true, object{}, 1e300, json.RawMessage("1e999")},
		"serviceurl": {nil, "", 7, []string{"x"}, "https://smba.trafficmanager.net/amer/", "http://localhost/"},
		"appid":      {"another-app", "AnonymousSkill", 7},
		"azp":        {"another-app", []string{appID}},
	} {
		for i, value := range values {
			all[fmt.Sprintf("claim %s, %d: %.40v", name, i, value)] = func(a *attempt) {
				a.token.claims[name] = value
				if value == nil {
					delete(a.token.claims, name)
				}
			}
		}
	}
	twice := func(name, value string) func(*attempt) {
		return func(a *attempt) {
			raw, _ := json.Marshal(a.token.claims)
			a.token.rawClaims = strings.TrimSuffix(string(raw), "}") + `,"` + name + `":` + value + "}"
		}
	}
	maps.Copy(all, changes{
		"iss twice":        twice("iss", `"`+issuer+`"`),
		"aud twice":        twice("aud", `"`+appID+`"`),
		"exp twice":        twice("exp", "9999999999"),
		"serviceurl twice": twice("serviceurl", `"https://evil.example/"`),
		"serviceUrl, not serviceurl": func(a *attempt) {
			a.token.claims["serviceUrl"] = a.token.claims["serviceurl"]
			delete(a.token.claims, "serviceurl")
		},
		"a skill's": func(a *attempt) {
			a.token.claims["iss"] = "https://login.microsoftonline.com/" + tenantID + "/v2.0"
			a.token.claims["ver"], a.token.claims["azp"], a.token.claims["tid"] = "2.0", "another-app", tenantID
		},
		"the bot's own, by Entra": func(a *attempt) {
			a.token.claims["iss"] = "https://sts.windows.net/" + tenantID + "/"
			a.token.claims["ver"], a.token.claims["appid"], a.token.claims["tid"] = "1.0", appID, tenantID
		},
		"claims no JSON": func(a *attempt) { a.token.rawClaims = "iss=" + issuer },
		"claims a list":  func(a *attempt) { a.token.rawClaims = "[]" },
		"claims null":    func(a *attempt) { a.token.rawClaims = "null" },
		"claims and more": func(a *attempt) {
			raw, _ := json.Marshal(a.token.claims)
			a.token.rawClaims = string(raw) + "{}"
		},
		"claims deep": func(a *attempt) {
			raw, _ := json.Marshal(a.token.claims)
			a.token.rawClaims = strings.TrimSuffix(string(raw), "}") + `,"x":` + strings.Repeat("[", 5000) + "}"
		},
	})
	return all
}

// foreignService are activities whose serviceUrl is not the token's.
func foreignService() changes {
	to := func(url any) func(*attempt) { return func(a *attempt) { a.activity["serviceUrl"] = url } }
	return changes{
		"no serviceUrl":      func(a *attempt) { delete(a.activity, "serviceUrl") },
		"serviceUrl empty":   to(""),
		"another serviceUrl": to("https://smba.trafficmanager.net/amer/"),
		"a path more":        func(a *attempt) { a.activity["serviceUrl"] = a.activity["serviceUrl"].(string) + "x/" },
		"two slashes more":   func(a *attempt) { a.activity["serviceUrl"] = a.activity["serviceUrl"].(string) + "/" },
		"a query more":       func(a *attempt) { a.activity["serviceUrl"] = a.activity["serviceUrl"].(string) + "?x" },
		"https, not http": func(a *attempt) {
			a.activity["serviceUrl"] = strings.Replace(a.activity["serviceUrl"].(string), "http:", "https:", 1)
		},
		"a user": func(a *attempt) {
			a.activity["serviceUrl"] = strings.Replace(a.activity["serviceUrl"].(string), "//", "//user@", 1)
		},
	}
}

// forbiddenHosts are addresses that a token names as well, and that nobody may be
// sent the bot's token at.
func forbiddenHosts() changes {
	all := changes{}
	for _, url := range []string{
		"http://169.254.169.254/latest/", "https://169.254.169.254/", "http://[fd00:ec2::254]/", "http://2852039166/", "http://0xa9fea9fe/", "http://0251.0376.0251.0376/",
		"file:///etc/passwd", "javascript:alert(1)", "ftp://smba.trafficmanager.net/", "//smba.trafficmanager.net/", "smba.trafficmanager.net", "/", "http:", "https:///x",
		"http://smba.trafficmanager.net/amer/", "https://smba.trafficmanager.net.evil.example/", "https://evil.trafficmanager.net/", "https://evilsmba.trafficmanager.net/",
		"https://smba.trafficmanager.net@evil.example/", "https://user:pw@smba.trafficmanager.net/", "https://smba.trafficmanager.net:8443/", "https://smba.trafficmanager.net:0/",
		"https://evil.example/", "https://evil.example/.smba.trafficmanager.net", "https://evil.example#smba.trafficmanager.net", "https://evil.example?smba.trafficmanager.net",
		`https://evil.example\@smba.trafficmanager.net/`, `https:\\evil.example\`, "https://smbа.trafficmanager.net/", "https://smba%2etrafficmanager.net/",
		"https://smba.trafficmanager.net%00.evil.example/", "https://smba。trafficmanager。net/", "https://localhost/", "http://localhost/", "http://127.0.0.1:1/", "http://[::1]:1/", "http://0.0.0.0/",
		"https://10.0.0.1/", "https://192.168.1.1/", "https://metadata.google.internal/", "https://teams.microsoft.com.evil.example/", "https://botframework.com.evil.example/",
		"https://notbotframework.com/", "https://graph.microsoft.com/", "https://x.sharepoint.com/", "gopher://smba.trafficmanager.net:70/", "https://" + strings.Repeat("a", 300) + ".botframework.com/",
	} {
		all["serviceUrl "+url] = func(a *attempt) { a.activity["serviceUrl"], a.token.claims["serviceurl"] = url, url }
	}
	return all
}

func methods() changes {
	all := changes{}
	for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "post", "POSTS", "PROPFIND"} {
		all["method "+method] = func(a *attempt) { a.method = method }
	}
	all["a method of 20 KB"] = func(a *attempt) { a.method = strings.Repeat("A", 20_000) }
	all["a GET that calls itself POST"] = func(a *attempt) {
		a.method = http.MethodGet
		a.header.Set("X-Http-Method-Override", http.MethodPost)
	}
	return all
}

func contents() changes {
	all := changes{}
	for _, typ := range []string{
		"", "text/plain", "text/html", "application/xml", "text/xml", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "application/octet-stream",
		"application/json5", "application/jsonp", "application/problem+json", "text/json", "*/*", "json", "application/json, text/plain", "application/json; charset=utf-16",
		"application/json; charset=iso-8859-1", "application/json; charset", "application/json; charset=utf-8; charset=utf-16", ";", "application /json",
	} {
		all[fmt.Sprintf("type %q", typ)] = func(a *attempt) { a.header.Set("Content-Type", typ) }
	}
	maps.Copy(all, changes{
		"no type":       func(a *attempt) { a.header.Del("Content-Type") },
		"two types":     func(a *attempt) { a.header.Add("Content-Type", "application/json") },
		"another first": func(a *attempt) { a.header["Content-Type"] = []string{"text/plain", "application/json"} },
		"deflate":       func(a *attempt) { a.header.Set("Content-Encoding", "deflate") },
		"br":            func(a *attempt) { a.header.Set("Content-Encoding", "br") },
		"two encodings": func(a *attempt) { a.header["Content-Encoding"] = []string{"identity", "gzip"} },
		"encodings":     func(a *attempt) { a.header.Set("Content-Encoding", "gzip, identity") },
		"a gzip bomb": func(a *attempt) {
			a.header.Set("Content-Encoding", "gzip")
			var packed bytes.Buffer
			zip := gzip.NewWriter(&packed)
			for range 100 {
				_, _ = zip.Write(make([]byte, 1<<20))
			}
			_ = zip.Close()
			a.body = packed.Bytes()
		},
	})
	return all
}

func sizes() changes {
	const most = 1 << 20
	long := func(a *attempt) { a.body = []byte(`{"type":"` + strings.Repeat("a", most-10) + `"}`) }
	return changes{
		"a byte too long":             long,
		"a byte too long, in chunks":  func(a *attempt) { long(a); a.chunked = true },
		"three times too long":        func(a *attempt) { a.body = bytes.Repeat([]byte("[0]"), most) },
		"three times, in chunks":      func(a *attempt) { a.body, a.chunked = bytes.Repeat([]byte("[0]"), most), true },
		"a million numbers, too long": func(a *attempt) { a.body = []byte(`{"type":"message","value":[` + strings.Repeat("0,", 1<<20) + "0]}") },
	}
}

func bodies() changes {
	all := changes{}
	for name, body := range map[string]string{
		"empty": "", "white space": " \r\n\t", "null": "null", "true": "true", "a number": "1", "a text": `"x"`, "a list": "[]", "a list of one": `[{"type":"message"}]`,
		"no type": "{}", "cut off": `{"type":"message"`, "in a text": `{"type":"mess`, "a tail": `{"type":"message","conversation":{"id":"c"}}x`,
		"two": `{"type":"message","conversation":{"id":"c"}}{"type":"message","conversation":{"id":"c"}}`, "single quotes": `{'type':'message'}`,
		"a comment": `{"type":"message"/* */,"conversation":{"id":"c"}}`, "a comma": `{"type":"message","conversation":{"id":"c"},}`, "no quotes": `{type:"message"}`,
		"a mark": "\xef\xbb\xbf" + `{"type":"message","conversation":{"id":"c"}}`, "invalid UTF-8": "{\"type\":\"message\xff\",\"conversation\":{\"id\":\"c\"}}",
		"overlong UTF-8": "{\"type\":\"message\",\"text\":\"\xc0\xaf\",\"conversation\":{\"id\":\"c\"}}", "UTF-16": "{\x00\"\x00t\x00y\x00p\x00e\x00", "NUL": "\x00", "a form": "type=message",
		"a control character": "{\"type\":\"message\",\"text\":\"\x01\",\"conversation\":{\"id\":\"c\"}}", "NaN": `{"type":"message","value":NaN,"conversation":{"id":"c"}}`,
		"65 levels":         `{"type":"message","conversation":{"id":"c"},"value":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + "}",
		"10001 levels":      `{"type":"message","conversation":{"id":"c"},"value":` + strings.Repeat(`{"a":`, 10_001) + "1" + strings.Repeat("}", 10_001) + "}",
		"half a million [":  strings.Repeat("[", 500_000),
		"half a million {":  strings.Repeat(`{"":`, 250_000),
		"100 000 keys":      `{"type":"message","conversation":{"id":"c"},` + numbered(100_000) + "}",
		"half a million 0s": `{"type":"message","conversation":{"id":"c"},"value":[` + strings.Repeat("0,", 500_000) + "0]}",
	} {
		all["body: "+name] = func(a *attempt) {
			a.body = []byte(body)
			if body == "" {
				a.body = []byte{}
			}
		}
	}
	return all
}

// numbered are so many keys.
func numbered(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, `"%x":0,`, i)
	}
	return strings.TrimSuffix(all.String(), ",")
}

func fields() changes {
	all := changes{}
	long := strings.Repeat("x", 1025)
	for field, values := range map[string][]any{
		"type":           {nil, "", 7, object{}, long},
		"conversation":   {nil, "", "c", 7, []string{"c"}, object{}, object{"id": ""}, object{"id": nil}, object{"id": 7}, object{"id": long}, object{"id": "."}, object{"id": ".."}},
		"from":           {"mia", 7, []string{"mia"}, object{"id": 7}, object{"id": long}, object{"id": "29:mia", "aadObjectId": long}},
		"recipient":      {"bot", 7, object{"id": object{}}, object{"id": long}},
		"id":             {7, object{}, long, ".", ".."},
		"replyToId":      {7, long},
		"name":           {7, long},
		"text":           {7, object{}, []string{"x"}},
		"entities":       {object{}, "x", 7},
		"attachments":    {object{}, "x", []int{7}},
		"membersAdded":   {object{}, "x", []string{"x"}},
		"reactionsAdded": {7},
		"deliveryMode":   {7},
		"locale":         {object{}},
	} {
		for i, value := range values {
			all[fmt.Sprintf("field %s, %d: %.40v", field, i, value)] = func(a *attempt) {
				a.activity[field] = value
				if value == nil {
					delete(a.activity, field)
				}
			}
		}
	}
	twice := func(field, value string) func(*attempt) {
		return func(a *attempt) {
			raw, _ := json.Marshal(a.activity)
			a.body = []byte(strings.TrimSuffix(string(raw), "}") + `,"` + field + `":` + value + "}")
		}
	}
	maps.Copy(all, changes{
		"type twice":         twice("type", `"message"`),
		"serviceUrl twice":   twice("serviceUrl", `"https://evil.example/"`),
		"channelId twice":    twice("channelId", `"msteams"`),
		"conversation twice": twice("conversation", `{"id":"c"}`),
		"type twice, escaped": func(a *attempt) {
			raw, _ := json.Marshal(a.activity)
			a.body = []byte(strings.TrimSuffix(string(raw), "}") + `,"\u0074ype":"invoke"}`)
		},
		"words as a key, twice":      twice(secretText+`":1,"`+secretText, "2"),
		"words within, twice":        twice("value", `{"`+secretText+`":1,"`+secretText+`":2}`),
		"400 KB of words, twice":     twice("value", `{"`+strings.Repeat(secretText, 20_000)+`":1,"`+strings.Repeat(secretText, 20_000)+`":2}`),
		"words in place of a list":   twice("membersAdded", `"`+secretText+`"`),
		"words in place of a number": twice("value", secretText),
		"id twice within": func(a *attempt) {
			raw, _ := json.Marshal(a.activity)
			a.body = []byte(strings.Replace(string(raw), `"from":{`, `"from":{"id":"29:bob",`, 1))
		},
	})
	return all
}

func invokes() changes {
	of := func(name string, value any) func(*attempt) {
		return func(a *attempt) {
			a.activity["type"], a.activity["name"], a.activity["value"] = "invoke", name, value
			delete(a.activity, "text")
		}
	}
	all := changes{
		"no name":                 func(a *attempt) { of("", object{})(a); delete(a.activity, "name") },
		"name empty":              of("", object{}),
		"name unknown":            of("no/such", object{}),
		"name in upper case":      of("ADAPTIVECARD/ACTION", object{}),
		"name of a file":          of("../../etc/passwd", object{}),
		"a file consent":          of("fileConsent/invoke", object{"action": "maybe"}),
		"composeExtension/query":  of("composeExtension/query", nil),
		"signin/tokenExchange":    of("signin/tokenExchange", object{"token": "x"}),
		"a feedback of no kind":   of("message/submitAction", object{"actionName": "feedback", "actionValue": object{"reaction": "boom"}}),
		"a feedback of nothing":   of("message/submitAction", nil),
		"a feedback that is text": of("message/submitAction", "like"),
	}
	return all
}

func paths() changes {
	all := changes{}
	for _, path := range []string{
		"/", "/api", "/api/messages/", "/api/messages/x", "/API/MESSAGES", "//api/messages", "/api//messages", "/api/./messages", "/x/../api/messages", "/api/messages%00", "/api/messages/..",
		"/metrics", "/debug/pprof/", "/debug/vars", "/../../etc/passwd", "/.git/config", "/healthz", "/readyz", "/api/messages;x",
	} {
		all["path "+path] = func(a *attempt) { a.path = path }
	}
	return all
}
