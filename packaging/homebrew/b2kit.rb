# For Homebrew/homebrew-core, as Formula/b/b2kit.rb.
class B2kit < Formula
  desc "Compressed N-dimensional arrays in Blosc2 files"
  homepage "@REPOSITORY@"
  url "@REPOSITORY@/releases/download/v@VERSION@/b2kit-@VERSION@-source.tar.gz"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args(path: "crates/b2-cli")
    generate_completions_from_executable(bin/"b2kit", "completions")
    system bin/"b2kit", "man", "-d", "man1"
    man1.install Dir["man1/*.1"]
  end

  test do
    (testpath/"raw").write("\0" * 4096)
    system bin/"b2kit", "pack", "raw", "a.b2nd", "--raw"
    assert_match "ok", shell_output("#{bin}/b2kit verify a.b2nd")
  end
end
