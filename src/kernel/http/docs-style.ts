/** Style sheet of the docs page. Its hash is in the content security policy. */
export function docsStyle(): string {
  return `
:root{--ink:#1d2129;--soft:#5b6472;--paper:#fff;--side:#f5f6f8;--line:#dfe3e8;--accent:#9a5b00;--code:#f0f2f5}
@media (prefers-color-scheme:dark){:root{--ink:#e6e8ec;--soft:#a0a8b4;--paper:#15181d;--side:#1b1f26;--line:#2e343d;--accent:#f0b45a;--code:#22272f}}
*{box-sizing:border-box}
html{scroll-padding-top:1rem}
body{margin:0;display:grid;grid-template-columns:18rem minmax(0,1fr);color:var(--ink);background:var(--paper);font:16px/1.55 system-ui,sans-serif}
nav{position:sticky;top:0;height:100vh;overflow:auto;padding:1rem 1.25rem;background:var(--side);border-right:1px solid var(--line)}
nav .name{font-weight:700;font-size:1.1rem;margin:.25rem 0 1rem}
nav small{color:var(--soft);font-weight:400}
nav h2{font-size:.78rem;letter-spacing:.04em;color:var(--soft);margin:1.2rem 0 .3rem}
nav ul{list-style:none;margin:0;padding:0}
nav li{overflow-wrap:anywhere}
nav a{display:block;padding:.15rem 0;font:13px/1.4 ui-monospace,monospace;text-decoration:none}
main{padding:1.5rem 2.5rem 6rem;max-width:62rem}
h1{margin:.2rem 0 1rem;font-size:1.8rem}
main>h2{margin:2.5rem 0 .5rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
section{padding:.4rem 0 1rem}
section:target h3{color:var(--accent)}
h3{margin:1.2rem 0 .3rem;font-size:1.05rem;overflow-wrap:anywhere}
a{color:var(--accent)}
a:focus-visible,summary:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
p{margin:.3rem 0}
.facts{color:var(--soft);font-size:.9rem}
code{font-family:ui-monospace,monospace;font-size:.92em}
pre{background:var(--code);padding:.8rem 1rem;border-radius:6px;overflow:auto;margin:.4rem 0}
details{margin:.35rem 0}
summary{cursor:pointer}
.wide{overflow-x:auto}
table{border-collapse:collapse;margin:.6rem 0;font-size:.93rem}
caption{text-align:left;color:var(--soft);padding:.2rem 0}
th,td{text-align:left;vertical-align:top;padding:.3rem .9rem .3rem 0;border-top:1px solid var(--line);font-weight:400}
@media (max-width:48rem){body{display:block}nav{position:static;height:auto;border-right:0;border-bottom:1px solid var(--line)}main{padding:1rem 1.25rem 4rem}}
`;
}
