module github.com/plait-run/plait/plaitd

go 1.26.0

replace github.com/plait-run/plait => ../

require (
	github.com/aws/aws-sdk-go-v2 v1.47.7
	github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream v1.7.26
	github.com/aws/aws-sdk-go-v2/config v1.33.14
	github.com/aws/aws-sdk-go-v2/credentials v1.20.14
	github.com/aws/aws-sdk-go-v2/feature/ec2/imds v1.20.6
	github.com/aws/aws-sdk-go-v2/internal/configsources v1.5.10
	github.com/aws/aws-sdk-go-v2/internal/endpoints/v2 v2.8.10
	github.com/aws/aws-sdk-go-v2/internal/v4a v1.5.10
	github.com/aws/aws-sdk-go-v2/service/internal/accept-encoding v1.13.24
	github.com/aws/aws-sdk-go-v2/service/internal/checksum v1.11.11
	github.com/aws/aws-sdk-go-v2/service/internal/presigned-url v1.14.10
	github.com/aws/aws-sdk-go-v2/service/internal/s3shared v1.20.10
	github.com/aws/aws-sdk-go-v2/service/s3 v1.114.8
	github.com/aws/aws-sdk-go-v2/service/signin v1.12.2
	github.com/aws/aws-sdk-go-v2/service/sso v1.39.2
	github.com/aws/aws-sdk-go-v2/service/ssooidc v1.44.2
	github.com/aws/aws-sdk-go-v2/service/sts v1.51.7
	github.com/aws/smithy-go v1.28.8
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3
	github.com/google/go-cmp v0.7.0
	github.com/jackc/pgpassfile v1.0.0
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761
	github.com/jackc/pgx/v5 v5.12.0
	github.com/jackc/puddle/v2 v2.2.3
	github.com/johannesboyne/gofakes3 v1.2.0
	github.com/plait-run/plait v0.0.0-00010101000000-000000000000
	github.com/ryszard/goskiplist v0.0.0-20150312221310-2dfbae5fcf46
	go.shabbyrobe.org/gocovmerge v0.0.0-20230507111327-fa4f82cfbf4d
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.49.0
	golang.org/x/text v0.41.0
	golang.org/x/tools v0.48.0
	pgregory.net/rapid v1.3.0
)
