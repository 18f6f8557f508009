module flows

go 1.21

require parhelion/sdk v0.0.0

replace parhelion/sdk => ./sdk
