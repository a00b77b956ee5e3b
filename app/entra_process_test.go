package app

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// azure stands in for the endpoint of managed identities, and for Azure OpenAI with two deployments,
// of which the first is busy. A token of "" is refused.
func azure(t *testing.T, token string) (environment []string, asked func() []string) {
	t.Helper()
	calls := make(chan string, 64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/identity" && token == "":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"hush-hush"}`)
		case r.URL.Path == "/identity":
			calls <- "token " + r.URL.Query().Get("resource")
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_on":"%d","resource":"r"}`, token, time.Now().Add(time.Hour).Unix())
		case strings.Contains(r.URL.Path, "/deployments/busy/"):
			calls <- "busy " + r.Header.Get("Authorization") + r.Header.Get("Api-Key")
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			calls <- "idle " + r.Header.Get("Authorization") + r.Header.Get("Api-Key")
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}`)
		}
	}))
	t.Cleanup(server.Close)
	environment = []string{
		"PORT=0", "BOT_LOG_FORMAT=json", "AZURE_OPENAI_ENDPOINT=" + server.URL, "AZURE_OPENAI_DEPLOYMENT=busy", "BOT_FALLBACK_MODELS=idle",
		"IDENTITY_ENDPOINT=" + server.URL + "/identity", "IDENTITY_HEADER=x", "AZURE_CLIENT_ID=app", "BOT_CLOUD=public",
	}
	return environment, func() (all []string) {
		for len(calls) > 0 {
			all = append(all, <-calls)
		}
		return all
	}
}

// TestDoctorWithEntraID: without a key the bot uses its identity, at all deployments, and the doctor
// says which one that is.
func TestDoctorWithEntraID(t *testing.T) {
	t.Parallel()
	token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"appid":"app-1","tid":"tenant-1"}`)) + ".c2ln"
	environment, asked := azure(t, token)
	out, err := botProcess(t.Context(), environment, "doctor").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"as app app-1, tenant tenant-1", "Azure OpenAI with Entra ID, deployment busy, then idle answers in"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Contains(string(out), token) {
		t.Errorf("the token is in\n%s", out)
	}
	seen := strings.Join(asked(), "\n")
	for _, want := range []string{"token https://cognitiveservices.azure.com", "busy Bearer " + token, "idle Bearer " + token} {
		if !strings.Contains(seen+"\n", want+"\n") {
			t.Errorf("%q is not in\n%s", want, seen)
		}
	}
}

// TestNoEntraID: people read one plain sentence, and the log has the cause, without what an endpoint
// said.
func TestNoEntraID(t *testing.T) {
	t.Parallel()
	environment, asked := azure(t, "")
	out, err := botProcess(t.Context(), environment, "doctor").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Microsoft Entra ID gives no token for Azure OpenAI: ") || !strings.Contains(string(out), "AZURE_CLIENT_ID") || strings.Contains(string(out), "hush") {
		t.Errorf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), processPatience)
	defer cancel()
	bot := botProcess(ctx, environment, "serve")
	bot.Stdout = io.Discard
	stderr, err := bot.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bot.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = bot.Wait() // it was killed
	}()
	logs := bufio.NewScanner(stderr)
	lines := until(t, logs, "listening")
	connector := newConnector(t)
	say(ctx, lines[len(lines)-1].URL, connector.URL)
	if said := <-connector.said; strings.Contains(said, "Entra") || strings.Contains(said, "AZURE") {
		t.Errorf("said %q", said)
	}
	line := ""
	for !strings.Contains(line, "get a token for Azure OpenAI: ") && logs.Scan() {
		line = logs.Text()
	}
	if !strings.Contains(line, "ManagedIdentityCredential") || !strings.Contains(line, "status 400") || strings.Contains(line, "hush") {
		t.Errorf("log line %s", line)
	}
	if seen := asked(); len(seen) > 0 {
		t.Errorf("asked %q", seen)
	}
}
