package connector_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/connector"
)

// BenchmarkVerify is one token with the keys at hand. BenchmarkRSA beside it is
// the share of the signature alone.
func BenchmarkVerify(b *testing.B) {
	d := newDoor(b)
	header := []string{"Bearer " + sign(b, goodClaims(time.Now()), nil)}
	a := message()
	if _, err := d.Authenticate(b.Context(), header, a); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Authenticate(b.Context(), header, a); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRSA(b *testing.B) {
	token := sign(b, goodClaims(time.Now()), nil)
	dot := strings.LastIndex(token, ".")
	signature, err := base64.RawURLEncoding.DecodeString(token[dot+1:])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		sum := sha256.Sum256([]byte(token[:dot]))
		if err := rsa.VerifyPKCS1v15(&key(0).PublicKey, crypto.SHA256, sum[:], signature); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRefuse is what a flood of bad tokens costs each.
func BenchmarkRefuse(b *testing.B) {
	d := newDoor(b)
	claims := goodClaims(time.Now())
	claims["iss"] = "https://evil.example"
	header := []string{"Bearer " + sign(b, claims, nil)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Verify(b.Context(), header); err == nil {
			b.Fatal("let in")
		}
	}
}

// BenchmarkSend goes over a loopback connection.
func BenchmarkSend(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id":"1"}`))
	}))
	defer s.Close()
	c, err := connector.New(connector.Config{
		Hosts: hosts(b, false, strings.TrimPrefix(s.URL, "http://")), Tokens: fixedToken("t"),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	ref := reference(s.URL)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Send(b.Context(), ref, message()); err != nil {
			b.Fatal(err)
		}
	}
}
