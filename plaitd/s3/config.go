package s3

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// A Config names a bucket. It has no credentials: see Open.
type Config struct {
	Bucket    string
	Prefix    string // of all keys, without leading or trailing slash: a bucket may be shared
	Endpoint  string // "https://s3.example.com"; "": Amazon's
	Region    string // "": from the environment, or us-east-1
	PathStyle bool   // the bucket in the path of a request, not in its host
}

// buckets matches valid bucket names, by Amazon's rules and the older ones.
var buckets = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{2,62}$`)

// Parse parses a bucket's name as users write it:
//
//	s3://bucket/prefix?endpoint=https://s3.example.com&region=eu-central-1&path-style=true
//
// All but the bucket may be left out. With an endpoint path-style defaults to true: few
// servers but Amazon's have a host for each bucket. It takes no credentials, which would be
// seen wherever the name is shown, and no error repeats them.
func Parse(text string) (Config, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" || u.Fragment != "" {
		return Config{}, fmt.Errorf("bucket: want s3://BUCKET/PREFIX?endpoint=URL&region=NAME&path-style=true")
	}
	if u.User != nil {
		return Config{}, fmt.Errorf("bucket %q: its keys are read from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or from "+
			"files, not from its name", u.Host)
	}
	if !buckets.MatchString(u.Host) {
		return Config{}, fmt.Errorf("bucket %q: not a name of a bucket", u.Host)
	}
	c := Config{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Config{}, fmt.Errorf("bucket %q: what follows ? is not key=value&key=value", c.Bucket)
	}
	for key, values := range query {
		value := values[len(values)-1]
		switch key {
		case "endpoint":
			at, err := url.Parse(value)
			if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil ||
				at.RawQuery != "" {
				return Config{}, fmt.Errorf("bucket %q: endpoint: want http://HOST or https://HOST", c.Bucket)
			}
			c.Endpoint = strings.TrimSuffix(value, "/")
			c.PathStyle = c.PathStyle || !query.Has("path-style")
		case "region":
			c.Region = value
		case "path-style":
			if c.PathStyle, err = strconv.ParseBool(value); err != nil {
				return Config{}, fmt.Errorf("bucket %q: path-style: want true or false", c.Bucket)
			}
		default:
			return Config{}, fmt.Errorf("bucket %q: there is no %q; there are endpoint, region and path-style", c.Bucket, key)
		}
	}
	return c, nil
}

// String returns the bucket for display.
func (c Config) String() string {
	name := "s3://" + c.Bucket
	if c.Prefix != "" {
		name += "/" + c.Prefix
	}
	if c.Endpoint != "" {
		name += " at " + c.Endpoint
	}
	return name
}
