package auth_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	appID    = "0a1b2c3d-1111-4222-8333-444455556666"
	tenantID = "9f8e7d6c-aaaa-4bbb-8ccc-ddddeeeeffff"
	issuer   = "https://api.botframework.com"

	// What no log may hold.
	password    = "the-password-of-the-app"
	accessToken = "the-access-token-of-the-bot"
	modelKey    = "sk-the-key-of-the-model"
)

// Ids of keys, by what they are good for.
const (
	goodKey    = "good"
	webchatKey = "webchat-only"
	bareKey    = "not-endorsed"
	curveKey   = "elliptic"
)

// object is JSON in the making.
type object map[string]any

// keyPair makes keys once for all tests: that takes long.
var keyPair = func() func(id string) *rsa.PrivateKey {
	var mu sync.Mutex
	made := map[string]*rsa.PrivateKey{}
	return func(id string) *rsa.PrivateKey {
		mu.Lock()
		defer mu.Unlock()
		if made[id] == nil {
			key, err := rsa.GenerateKey(rand.Reader, 2048)
			if err != nil {
				panic(err) // no randomness: nothing would work
			}
			made[id] = key
		}
		return made[id]
	}
}()

// authority is the issuer of the channel's tokens, and of the bot's own.
type authority struct {
	url   string
	calls atomic.Int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openid", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, object{"issuer": issuer, "jwks_uri": a.url + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, object{"keys": []object{
			published(goodKey, "msteams", "directline"),
			published(webchatKey, "webchat"),
			published(bareKey),
			{"kty": "EC", "kid": curveKey, "crv": "P-256", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM", "endorsements": []string{"msteams"}},
		}})
	})
	mux.HandleFunc("POST /{tenant}/oauth2/v2.0/token", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, object{"token_type": "Bearer", "expires_in": 3600, "access_token": accessToken})
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.calls.Add(1)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

func reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func published(id string, channels ...string) object {
	public := &keyPair(id).PublicKey
	key := object{
		"kty": "RSA", "kid": id, "use": "sig",
		"n": b64(public.N.Bytes()), "e": b64(big.NewInt(int64(public.E)).Bytes()),
	}
	if len(channels) > 0 {
		key["endorsements"] = channels
	}
	return key
}

func b64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// token is one in the making. What is given raw wins.
type token struct {
	header, claims       object
	rawHeader, rawClaims string
	sign                 func(input []byte) []byte
}

func newToken(serviceURL string) *token {
	now := time.Now().Unix()
	return &token{
		header: object{"typ": "JWT", "alg": "RS256", "kid": goodKey},
		claims: object{"iss": issuer, "aud": appID, "exp": now + 3600, "nbf": now - 60, "serviceurl": serviceURL},
		sign:   signedBy(goodKey, crypto.SHA256),
	}
}

// signedBy signs as the RS algorithm of that hash does.
func signedBy(key string, hash crypto.Hash) func([]byte) []byte {
	return func(input []byte) []byte {
		h := hash.New()
		h.Write(input)
		signature, err := rsa.SignPKCS1v15(nil, keyPair(key), hash, h.Sum(nil))
		if err != nil {
			panic(err) // the key fits the hash
		}
		return signature
	}
}

// withPSS signs as PS256 does.
func withPSS(input []byte) []byte {
	sum := sha256.Sum256(input)
	signature, err := rsa.SignPSS(rand.Reader, keyPair(goodKey), crypto.SHA256, sum[:], nil)
	if err != nil {
		panic(err)
	}
	return signature
}

// withPublicKey signs as HS256 does, with what everybody knows of the good key.
func withPublicKey(input []byte) []byte {
	der, err := x509.MarshalPKIXPublicKey(&keyPair(goodKey).PublicKey)
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	mac.Write(input)
	return mac.Sum(nil)
}

func unsigned([]byte) []byte { return nil }

// String is the token as it is sent.
func (k *token) String() string {
	part := func(raw string, from object) string {
		if raw != "" {
			return b64([]byte(raw))
		}
		text, err := json.Marshal(from)
		if err != nil {
			panic(fmt.Sprint("a token of what is no JSON: ", err))
		}
		return b64(text)
	}
	input := part(k.rawHeader, k.header) + "." + part(k.rawClaims, k.claims)
	return input + "." + b64(k.sign([]byte(input)))
}
