package connector

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// managedIdentity is the identity of the machine, which azidentity asks for in the way
// of the service that the machine is part of.
type managedIdentity struct {
	credential *azidentity.ManagedIdentityCredential
}

func newManagedIdentity(clientID string, rt http.RoundTripper) (managedIdentity, error) {
	credential, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
		ClientOptions: policy.ClientOptions{Transport: noRedirects(rt)}, ID: azidentity.ClientID(clientID),
	})
	return managedIdentity{credential}, err
}

// anew makes azidentity ask for a token. Without claims it hands back the one that it
// keeps for the whole process until that has five minutes left, also when it has just been
// refused. Managed identities take no claims, so that these go nowhere.
const anew = "{}"

func (m managedIdentity) fetch(ctx context.Context, scope string) (grant, error) {
	t, err := m.credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}, Claims: anew})
	if err == nil {
		return grant{token: t.Token, life: min(time.Until(t.ExpiresOn), maxTokenLife)}, nil
	}
	if ctx.Err() != nil {
		return grant{}, &TokenError{Err: ctx.Err()}
	}
	// The text of azidentity's errors quotes the endpoint's whole answer.
	e := &TokenError{Code: "the managed identity gives none"}
	if failed := new(azidentity.AuthenticationFailedError); errors.As(err, &failed) && failed.RawResponse != nil {
		e.Status = failed.RawResponse.StatusCode
	}
	return grant{}, e
}
