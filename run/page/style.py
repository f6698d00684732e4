"""The style sheet of a page: light and dark, narrow and printed."""

CSS = """
:root { color-scheme: light dark; --back: #fff; --text: #1a1f24; --dim: #59636e; --line: #d8dee4;
  --soft: #f4f6f8; --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --heat: 0, 90, 160;
  --warn: #fff4d6; --warn-line: #b58900;
  --h0: #f7e88a; --h1: #e3e286; --h2: #cfdd83; --h3: #bad77f; --h4: #a6d27c; --h5: #8dc87d;
  --h6: #70ba82; --h7: #53ac88; --h8: #369e8e; --h9: #2f8d91; --h10: #2e7c93; --h11: #2e6b95;
  --h12: #2f5892; --h13: #334180; --h14: #362b6e; --h15: #3a145c; }
@media (prefers-color-scheme: dark) { :root { --back: #14181d; --text: #e6e9ec; --dim: #9aa5b1;
  --line: #333c46; --soft: #1d232a; --c0: #56b4e9; --c1: #ee8a4a; --c2: #3fc79a; --c3: #dc9cc0;
  --heat: 86, 180, 233; --warn: #332a10; --warn-line: #d6ac32;
  --h0: #3a145c; --h1: #362b6e; --h2: #334180; --h3: #2f5892; --h4: #2e6b95; --h5: #2e7c93;
  --h6: #2f8d91; --h7: #369e8e; --h8: #53ac88; --h9: #70ba82; --h10: #8dc87d; --h11: #a6d27c;
  --h12: #bad77f; --h13: #cfdd83; --h14: #e3e286; --h15: #f7e88a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 1rem; background: var(--back);
  color: var(--text); font: 15px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1rem 0 .3rem; }
p { margin: .3rem 0; } .dim, figcaption { color: var(--dim); font-size: .87rem; }
figure { margin: 0; } section { break-inside: avoid-page; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: .6rem; }
.tile { background: var(--soft); border: 1px solid var(--line); border-radius: 6px;
  padding: .5rem .7rem; } .tile b { display: block; font-size: 1.1rem; font-weight: 600;
  overflow-wrap: normal; }
.warnings li { background: var(--warn); border-left: 4px solid var(--warn-line); margin: .4rem 0;
  padding: .4rem .7rem; } .warnings { list-style: none; padding: 0; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .87rem; }
.bars + .wide { margin-top: 1rem; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  overflow-wrap: normal; } th { font-weight: 600; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } .wide .text { text-align: left; }
.settings td { text-align: left; overflow-wrap: anywhere; } .settings th { text-align: left; }
.bars { display: grid; grid-template-columns: minmax(3rem, max-content) 1fr max-content;
  gap: .3rem .6rem; align-items: center; font-size: .87rem; } .bars > .name { text-align: right; }
.track { display: flex; height: 1.1rem; background: var(--soft); border-radius: 3px;
  overflow: hidden; } .track > span, .key > i, .columns i { print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
.c0 { background: var(--c0); } .c1 { background: var(--c1); } .c2 { background: var(--c2); }
.c3 { background: var(--c3); }
.key { display: inline-block; margin-right: 1rem; font-size: .87rem; }
.key > i { display: inline-block; width: .8rem; height: .8rem; margin-right: .35rem; }
.columns { display: flex; align-items: flex-end; height: 9rem; gap: 1px;
  border-bottom: 1px solid var(--line); } .columns > span { flex: 1 1 0; height: 100%;
  display: flex; align-items: flex-end; } .columns i { display: block; width: 100%;
  background: var(--c0); } .columns i.some { min-height: 2px; }
.ends { display: flex; justify-content: space-between; color: var(--dim); font-size: .8rem; }
.heat { border-collapse: separate; border-spacing: 1px; } .heat td { border: 0;
  text-align: center; min-width: 2.6rem; background: rgba(var(--heat), var(--share));
  print-color-adjust: exact; -webkit-print-color-adjust: exact; } .heat td:first-child {
  text-align: center; } .heat th { border: 0; text-align: center; }
.heat td.strong { color: var(--back); }
.pages { display: flex; flex-wrap: wrap; gap: 2px; align-items: center; font-size: .8rem; }
.pages > i { width: 1rem; height: 1rem; border: 1px solid var(--line); border-radius: 2px;
  background: rgba(var(--heat), var(--share)); print-color-adjust: exact;
  -webkit-print-color-adjust: exact; } .pages > b { flex-basis: 100%; font-weight: 400;
  color: var(--dim); margin-top: .2rem; }
.links td:first-child { white-space: nowrap; }
.network { display: flex; flex-wrap: wrap; gap: .8rem; } .network figure { max-width: 100%; }
.network svg { max-width: 100%; height: auto; display: block; } .network.levels { display: block; }
.network .none { fill: var(--line); } .network.matrix .none { fill: var(--soft); }
.scale > i { display: inline-block; width: .8rem; height: .8rem; }
.network path, .scale > i { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.h0 { fill: var(--h0); background: var(--h0); } .h1 { fill: var(--h1); background: var(--h1); }
.h2 { fill: var(--h2); background: var(--h2); } .h3 { fill: var(--h3); background: var(--h3); }
.h4 { fill: var(--h4); background: var(--h4); } .h5 { fill: var(--h5); background: var(--h5); }
.h6 { fill: var(--h6); background: var(--h6); } .h7 { fill: var(--h7); background: var(--h7); }
.h8 { fill: var(--h8); background: var(--h8); } .h9 { fill: var(--h9); background: var(--h9); }
.h10 { fill: var(--h10); background: var(--h10); } .h11 { fill: var(--h11); background:
var(--h11); } .h12 { fill: var(--h12); background: var(--h12); } .h13 { fill: var(--h13);
background: var(--h13); } .h14 { fill: var(--h14); background: var(--h14); } .h15 { fill:
var(--h15); background: var(--h15); }
#sliders label { display: grid; grid-template-columns: 8rem 1fr 4.5rem; gap: .6rem;
  align-items: center; font-size: .87rem; } #sliders output { font-weight: 600; }
details { margin: .8rem 0; } summary { cursor: pointer; font-weight: 600; }
@media (max-width: 34rem) { .bars { grid-template-columns: 1fr max-content; }
  .bars > .name { grid-column: 1 / -1; text-align: left; margin-bottom: -.25rem; } }
@media print { body { max-width: none; font-size: 11px; } details:not([open]),
  [data-section="counters"]:not(:has(details[open])) { display: none; }
  .wide { overflow: visible; } }
"""
