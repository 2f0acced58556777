"""A stand-in for the provider hashicorp/aws where no registry of providers can be reached.

Terraform itself runs unchanged; this provider has the real one's schemas and makes what the local AWS can make.
"""
