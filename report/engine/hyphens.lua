-- A command's flag stays on its line: Typst would break one after its hyphen.
-- Two hyphens stay two hyphens: pandoc before 3.9 leaves them to Typst as they are, which makes a dash of them.
-- Quarto runs it (filters in _quarto.yml, at: pre-ast). The embedded engine has a later pandoc and does the former by
-- itself; there this does nothing.
-- A page breaks no line within a word of a command either; in a PDF style.typ sees to that.

local function with_hyphens(text)
  if FORMAT ~= "typst" then return nil end
  local flag = text.text:match("^%-%-?%a[%w%-]*$")
  if flag then return pandoc.RawInline("typst", "#box[" .. flag:gsub("%-", "\\-") .. "]") end
  if not text.text:find("--", 1, true) then return nil end
  local inlines, rest = pandoc.Inlines({}), 1
  for first, hyphens, last in text.text:gmatch("()(%-%-+)()") do
    if first > rest then inlines:insert(pandoc.Str(text.text:sub(rest, first - 1))) end
    inlines:insert(pandoc.RawInline("typst", (hyphens:gsub("%-", "\\-"))))
    rest = last
  end
  if rest <= #text.text then inlines:insert(pandoc.Str(text.text:sub(rest))) end
  return inlines
end

local ESCAPED = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;" }

local function unbroken(code)
  if not FORMAT:match("^html") or #code.classes > 0 or not code.text:find("-", 1, true) then return nil end
  local words = code.text:gsub("[&<>]", ESCAPED):gsub("[^ ]*%-[^ ]*", "<span>%0</span>")
  return pandoc.RawInline("html", "<code>" .. words .. "</code>")
end

return { { Str = with_hyphens, Code = unbroken } }
