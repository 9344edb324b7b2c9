"""The public transformations: argument handling, trees and user errors."""
