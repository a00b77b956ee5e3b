package connector_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/planbot-go/planbot/connector"
)

const audience = "https://bot.example/mcp"

// personal are the claims of a person's token.
func personal(issuer string, over jwt.MapClaims) jwt.MapClaims {
	c := jwt.MapClaims{
		"iss": issuer, "sub": "sub-mia", "aud": audience, "exp": time.Now().Add(time.Hour).Unix(), "nbf": time.Now().Add(-time.Minute).Unix(),
		"tid": tenantID, "oid": "aad-mia", "azp": callerID,
	}
	for name, value := range over {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

func TestVerifier(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	issuer := i.URL + "/" + tenantID + "/v2.0"
	v, err := connector.NewVerifier([]string{issuer}, audience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	made := func(over jwt.MapClaims) string { return sign(t, personal(issuer, over), nil) }
	got, err := v.Verify(t.Context(), made(nil))
	want := connector.Bearer{Issuer: issuer, Subject: "sub-mia", Tenant: tenantID, Person: "aad-mia", Client: callerID, Expires: got.Expires}
	if err != nil || got != want || time.Until(got.Expires) < 59*time.Minute {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := v.Verify(t.Context(), made(jwt.MapClaims{"idtyp": "app", "azp": nil, "client_id": "x", "nbf": nil})); err != nil || got.Person != "" || got.Client != "x" {
		t.Errorf("a program: %+v, %v", got, err)
	}
	for name, over := range map[string]jwt.MapClaims{
		"Entra":        {"azp": audience, "scp": "use"},
		"another case": {"OID": "aad-ben", "Sub": "sub-ben", "Azp": "x"},
		"scopes":       {"azp": nil, "scope": "use"},
	} {
		if got, err := v.Verify(t.Context(), made(over)); err != nil || got.Person != "aad-mia" || got.Subject != "sub-mia" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := v.VerifyID(t.Context(), made(jwt.MapClaims{"azp": nil, "nonce": "n"})); err != nil || got.Person != "aad-mia" {
		t.Errorf("an ID token: %+v, %v", got, err)
	}
	for name, token := range map[string]string{
		"foreign issuer": made(jwt.MapClaims{"iss": "https://login.example"}),
		"other audience": made(jwt.MapClaims{"aud": strings.ToUpper(audience)}),
		"expired":        made(jwt.MapClaims{"exp": time.Now().Add(-time.Hour).Unix()}),
		"no end":         made(jwt.MapClaims{"exp": nil}),
		"not valid yet":  made(jwt.MapClaims{"nbf": time.Now().Add(time.Hour).Unix()}),
		"no subject":     made(jwt.MapClaims{"sub": nil}),
		"a wrong type":   made(jwt.MapClaims{"oid": 7}),
		"no signature":   strings.TrimRight(made(nil), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"),
		"another body":   tamperBody(made(jwt.MapClaims{"sub": "emea"})),
		"no algorithm":   tamperAlg(made(nil), "none"),
		"no token":       "x",
		"another case":   made(jwt.MapClaims{"sub": nil, "SUB": "sub-mia"}),
		"an ID token":    made(jwt.MapClaims{"azp": nil}),
		"of its own":     made(jwt.MapClaims{"azp": audience}),
		"with a nonce":   made(jwt.MapClaims{"nonce": "n"}),
		"with a hash":    made(jwt.MapClaims{"scope": "openid", "at_hash": "h"}),
		"of Cognito":     made(jwt.MapClaims{"token_use": "id"}),
		"of Keycloak":    made(jwt.MapClaims{"typ": "ID"}),
		"a long token":   strings.Repeat("x", 1<<20) + "..",
	} {
		_, err := v.Verify(t.Context(), token)
		refused, ok := errors.AsType[*connector.AuthError](err)
		if !ok || refused.Status != http.StatusUnauthorized || len(token) > 1 && strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVerifierOfWrongIssuers(t *testing.T) {
	t.Parallel()
	_, err := connector.NewVerifier([]string{"http://login.example", "x"}, "")
	for _, want := range []string{"audience", "login.example", "issuer"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %s: %v", want, err)
		}
	}
}

func ExampleNewVerifier() {
	v, err := connector.NewVerifier([]string{"https://login.microsoftonline.com/7a7b7c7d-1111-2222-3333-444455556666/v2.0"}, "https://bot.example/mcp")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer v.Close()
	_, err = v.Verify(context.Background(), "no token")
	fmt.Println(err)
	// Output: authorization is no signed token
}
