// Package s3 keeps large objects in a bucket of Amazon S3, or of a server that speaks
// its protocol.
//
// It uses only what all such servers do alike: put an object of known size, get, delete
// and list. It sends no conditional requests and no newer kinds of checksum, and needs
// no order between requests: see postgres.Bucket for why that is enough.
//
// Credentials come from where Amazon's own programs find them: AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, the files and profiles of the AWS CLI, or the machine's role.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/plait-run/plait/plaitd/postgres"
)

const (
	// answerWait is how long a server may be silent after a request, and how long it may take or send
	// nothing of one. It must store up to 5 GB before it confirms.
	answerWait = 2 * time.Minute
	// side is how many keys are deleted concurrently.
	side = 8
	// fallbackRegion is what servers without regions expect.
	fallbackRegion = "us-east-1"
)

// A Bucket is a postgres.Bucket.
type Bucket struct {
	client *s3.Client
	config Config
	prefix string // of keys, with its slash
}

var _ postgres.Bucket = (*Bucket)(nil)

// Open returns the bucket that c names. It does not contact the server yet: see Check.
func Open(ctx context.Context, c Config) (*Bucket, error) { return open(ctx, c, nil) }

// open is like Open but connects with dial. If dial is nil, it connects as the net package does.
func open(ctx context.Context, c Config, dial dialer) (*Bucket, error) {
	transport := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.ResponseHeaderTimeout = answerWait
		t.MaxIdleConnsPerHost = 2 * side
		if dial == nil {
			dial = t.DialContext
		}
		t.DialContext = steadyDial(dial)
	})
	all, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(transport))
	if err != nil {
		return nil, fmt.Errorf("settings of %s: %w", c, err)
	}
	all.HTTPClient = steadyClient{all.HTTPClient}
	if c.Region != "" {
		all.Region = c.Region
	}
	if all.Region == "" {
		all.Region = fallbackRegion
	}
	b := &Bucket{config: c}
	if c.Prefix != "" {
		b.prefix = c.Prefix + "/"
	}
	b.client = s3.NewFromConfig(all, func(o *s3.Options) {
		o.UsePathStyle = c.PathStyle
		if c.Endpoint != "" {
			o.BaseEndpoint = aws.String(c.Endpoint)
		}
		// Servers that do not know the checksums a client adds by default refuse them; and
		// objects are named by their hash.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})
	return b, nil
}

// String returns the bucket for display.
func (b *Bucket) String() string { return b.config.String() }

// Put stores the size bytes of r under key. A reader that can seek, such as a file, is
// signed with its bytes and sent again if the server could not take it.
func (b *Bucket) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	in := &s3.PutObjectInput{Bucket: &b.config.Bucket, Key: b.key(key), Body: r, ContentLength: &size}
	var options []func(*s3.Options)
	if rest, ok := r.(io.Seeker); ok {
		has, err := left(rest)
		if err != nil {
			return b.failed("put", key, err)
		}
		if has != size {
			return b.failed("put", key, fmt.Errorf("%d bytes, not %d", has, size))
		}
	} else {
		body := &exactly{r: r, left: size}
		if size == 0 { // no request would read it
			if _, err := body.Read(nil); err != io.EOF {
				return b.failed("put", key, err)
			}
		}
		in.Body = body
		options = append(options, s3.WithAPIOptions(v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware))
	}
	_, err := b.client.PutObject(ctx, in, options...)
	return b.failed("put", key, err)
}

// left returns how many bytes remain after the position of s.
func left(s io.Seeker) (int64, error) {
	at, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	end, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	_, err = s.Seek(at, io.SeekStart)
	return end - at, err
}

// exactly is a reader that fails unless it ends after left bytes. It hands out the last of
// them only once it has seen the end, so that a request with more is never complete.
type exactly struct {
	r    io.Reader
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	n, err := e.r.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	switch {
	case err == io.EOF && e.left > 0:
		return n, io.ErrUnexpectedEOF
	case err != nil || e.left > 0:
		return n, err
	}
	switch more, err := io.ReadFull(e.r, make([]byte, 1)); {
	case more > 0:
		return 0, errors.New("more bytes than were announced")
	case err != io.EOF:
		return 0, err
	}
	return n, io.EOF
}

// Get returns a reader for the bytes under key.
func (b *Bucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.config.Bucket, Key: b.key(key)})
	if err != nil {
		return nil, b.failed("get", key, err)
	}
	return out.Body, nil
}

// Delete removes keys, one request each: not every server can delete many in one
// request, and those that can disagree about the checksum it needs.
func (b *Bucket) Delete(ctx context.Context, keys ...string) error {
	var (
		wait  sync.WaitGroup
		once  sync.Once
		first error
		turn  = make(chan struct{}, side)
	)
	for _, key := range keys {
		turn <- struct{}{}
		wait.Go(func() {
			defer func() { <-turn }()
			_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.config.Bucket, Key: b.key(key)})
			if err = b.failed("delete", key, err); err != nil && !errors.Is(err, postgres.ErrNoKey) {
				once.Do(func() { first = err })
			}
		})
	}
	wait.Wait()
	return first
}

// List yields the keys after a key, in order of name.
func (b *Bucket) List(ctx context.Context, after string) iter.Seq2[postgres.Kept, error] {
	return func(yield func(postgres.Kept, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: &b.config.Bucket, Prefix: &b.prefix}
		if after != "" {
			in.StartAfter = b.key(after)
		}
		for pages := s3.NewListObjectsV2Paginator(b.client, in); pages.HasMorePages(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(postgres.Kept{}, fmt.Errorf("list %s: %w", b.config, err))
				return
			}
			for _, o := range page.Contents {
				key, ours := strings.CutPrefix(aws.ToString(o.Key), b.prefix)
				if !ours || key <= after { // a server that ignores StartAfter or Prefix
					continue
				}
				if !yield(postgres.Kept{Key: key, Size: aws.ToInt64(o.Size)}, nil) {
					return
				}
			}
		}
	}
}

// Check puts, reads, lists and deletes a small object, to see whether all that a store
// needs is allowed. It returns the first failure.
func (b *Bucket) Check(ctx context.Context) error {
	const text = "plait tries what it may do in this bucket"
	key := fmt.Sprintf("%s%d", postgres.Probes, time.Now().UnixNano())
	if err := b.Put(ctx, key, strings.NewReader(text), int64(len(text))); err != nil {
		return err
	}
	r, err := b.Get(ctx, key)
	if err == nil {
		var got []byte
		got, err = io.ReadAll(r)
		r.Close()
		if err == nil && string(got) != text {
			err = fmt.Errorf("get %s from %s: other bytes than were put", key, b.config)
		}
	}
	if err == nil {
		listed := false
		for kept, e := range b.List(ctx, postgres.Probes) {
			if err = e; err != nil {
				break
			}
			if kept.Key == key && kept.Size == int64(len(text)) {
				listed = true
				break // other keys follow
			}
		}
		if err == nil && !listed {
			err = fmt.Errorf("list %s: what was put is not there", b.config)
		}
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := errors.Join(err, b.Delete(clean, key)); err != nil {
		return err
	}
	if r, err := b.Get(ctx, key); err == nil {
		r.Close()
		return fmt.Errorf("delete %s in %s: it is still there", key, b.config)
	} else if !errors.Is(err, postgres.ErrNoKey) {
		// Amazon reports a missing key as forbidden to clients that may not list.
		return fmt.Errorf("ask %s for what is not there: %w", b.config, err)
	}
	return nil
}

// Versions says what happens to an object that is deleted.
type Versions int

// What a bucket does with versions that are not current.
const (
	VersionsNone   Versions = iota // it has none
	VersionsExpire                 // a rule of its lifecycle ends them
	VersionsKept                   // they stay forever
)

// Versions asks what happens to deleted objects. It needs a permission that a store does not.
func (b *Bucket) Versions(ctx context.Context) (Versions, error) {
	v, err := b.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &b.config.Bucket})
	if err != nil {
		return VersionsNone, fmt.Errorf("ask %s for its versions: %w", b.config, err)
	}
	if v.Status != types.BucketVersioningStatusEnabled {
		return VersionsNone, nil
	}
	rules, err := b.client.GetBucketLifecycleConfiguration(ctx,
		&s3.GetBucketLifecycleConfigurationInput{Bucket: &b.config.Bucket})
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "NoSuchLifecycleConfiguration" {
		return VersionsKept, nil
	}
	if err != nil {
		return VersionsNone, fmt.Errorf("ask %s for its lifecycle: %w", b.config, err)
	}
	for _, r := range rules.Rules {
		if r.Status == types.ExpirationStatusEnabled && r.NoncurrentVersionExpiration != nil {
			return VersionsExpire, nil
		}
	}
	return VersionsKept, nil
}

func (b *Bucket) key(name string) *string { return aws.String(b.prefix + name) }

// failed wraps err with what failed. A missing bucket is not reported as a missing key:
// all that it stores would seem lost.
func (b *Bucket) failed(verb, key string, err error) error {
	if err == nil {
		return nil
	}
	var none *types.NoSuchKey
	var api smithy.APIError
	if errors.As(err, &none) || errors.As(err, &api) && api.ErrorCode() == "NoSuchKey" {
		return fmt.Errorf("%s %s in %s: %w", verb, key, b.config, postgres.ErrNoKey)
	}
	return fmt.Errorf("%s %s in %s: %w", verb, key, b.config, err)
}
