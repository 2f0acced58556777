"""`cdktf deploy` of a stack on the real Terraform, against a local AWS, without an account."""
