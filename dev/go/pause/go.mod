module netclaim.local/build/pause

go 1.26.0
