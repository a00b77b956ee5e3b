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
)

// BenchmarkVerify is one token with the keys at hand. BenchmarkRSA beside it is
// the share of the signature alone.
func BenchmarkVerify(b *testing.B) {
	d := newDoor(b)
	header := []string{"Bearer " + sign(b, goodClaims(time.Now()), nil)}
	a := message()
	if _, err := d.Authenticate(b, header, a); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Authenticate(b, header, a); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRSA(b *testing.B) {
	check := signatureCheck(b)
	b.ReportAllocs()
	for b.Loop() {
		check()
	}
}

// signatureCheck returns the check of a token's signature, and of nothing else.
func signatureCheck(tb testing.TB) func() {
	tb.Helper()
	token := sign(tb, goodClaims(time.Now()), nil)
	dot := strings.LastIndex(token, ".")
	signature, err := base64.RawURLEncoding.DecodeString(token[dot+1:])
	if err != nil {
		tb.Fatal(err)
	}
	return func() {
		sum := sha256.Sum256([]byte(token[:dot]))
		if err := rsa.VerifyPKCS1v15(&key(0).PublicKey, crypto.SHA256, sum[:], signature); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestVerifyAllocations holds the guard to 60 allocations beside those of the signature.
// What other tests allocate counts too, so none may run beside it.
func TestVerifyAllocations(t *testing.T) {
	d := newDoor(t)
	header := []string{"Bearer " + sign(t, goodClaims(time.Now()), nil)}
	a := message()
	all := testing.AllocsPerRun(100, func() {
		if _, err := d.Authenticate(t, header, a); err != nil {
			t.Fatal(err)
		}
	})
	if own := all - testing.AllocsPerRun(100, signatureCheck(t)); own > 60 {
		t.Errorf("%v allocations beside those of the signature", own)
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
			b.Fatal("accepted")
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
	c := newClient(b, withApp(nil, strings.TrimPrefix(s.URL, "http://")), fixedToken("t"))
	ref := reference(s.URL)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Send(b.Context(), ref, message()); err != nil {
			b.Fatal(err)
		}
	}
}
