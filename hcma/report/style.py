"""The page's only style sheet: dark on light, for a wide screen, a phone and paper."""

STYLE = """
:root{--ink:#1e293b;--soft:#64748b;--line:#e2e8f0;--paper:#fff;--ground:#f6f8fb;--blue:#2563eb;--green:#15803d;
--red:#dc2626}
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,"PingFang SC","Hiragino Sans GB","Microsoft YaHei","Noto Sans CJK SC","Noto Sans SC",sans-serif}
header,main{max-width:1160px;margin:0 auto;padding:0 20px}
header{padding-top:28px}
header p{margin:0;color:var(--soft);font-size:14px}
h1{margin:0 0 10px;font-size:30px;line-height:1.2;overflow-wrap:anywhere}
h2{margin:0 0 14px;font-size:22px}
h3{margin:22px 0 8px;font-size:16px}
small{color:var(--soft);font-size:.72em;font-weight:400;white-space:nowrap}
nav{display:flex;flex-wrap:wrap;gap:6px 18px;padding-bottom:16px;font-size:15px}
nav a{color:var(--blue);text-decoration:none}
nav a:hover{text-decoration:underline}
section{background:var(--paper);border:1px solid var(--line);border-radius:12px;padding:22px 24px;margin-bottom:18px}
.how{color:var(--soft);font-size:14px;margin:8px 0 14px;max-width:95ch}
.how span{display:block;font-size:12.5px}
.missing,.quiet{color:var(--soft);font-size:14px}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:13px}
code{background:#f1f5f9;border-radius:4px;padding:1px 5px;overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px}
.tile{border:1px solid var(--line);border-radius:10px;padding:12px 14px;line-height:1.35}
.tile b{display:block;font-size:23px;font-weight:650;font-variant-numeric:tabular-nums;white-space:nowrap}
.tile span{display:block;font-size:13.5px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14.5px;font-variant-numeric:tabular-nums}
th,td{padding:6px 10px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,.name,.facts td{text-align:left}
thead th{color:var(--soft);font-weight:600;font-size:13px;vertical-align:bottom}
thead small{display:block}
tbody th{font-weight:400}
.main th,.main td{font-weight:650}
.facts{width:auto}
.facts td{white-space:normal;overflow-wrap:anywhere}
.bar{background:linear-gradient(#dbeafe,#dbeafe) 0 50%/calc(var(--share) - 4px) 70% no-repeat}
.better{color:var(--green);font-weight:600}
.worse{color:var(--red);font-weight:600}
figure{margin:0}
img{max-width:100%;height:auto;display:block}
.pixels{image-rendering:pixelated}
.large{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:8px 26px}
.small{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:8px 18px}
.large img,.small img{width:100%}
.large h3,.small h3{margin:6px 0 4px}
.small h3{font-size:14px}
.legend{display:flex;flex-wrap:wrap;gap:2px 16px;font-size:13px}
.legend i{display:inline-block;width:14px;height:3px;border-radius:2px;margin-right:6px;vertical-align:middle}
.legend data{color:var(--soft)}
.small .how,.large .how{margin:2px 0;font-size:12.5px}
.small .how span,.large .how span{font-size:11.5px}
.events{margin:12px 0;padding-left:22px;font-size:14px}
.card{border:1px solid var(--line);border-radius:10px;padding:14px 16px;margin-bottom:12px;break-inside:avoid}
.caption{margin:0 0 10px;font-weight:600;overflow-wrap:anywhere}
.panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(118px,1fr));gap:12px 10px}
.panels img{width:100%;border-radius:5px}
figcaption{font-size:14px;line-height:1.35;margin-top:3px;overflow-wrap:anywhere}
figcaption data{color:var(--soft);font-size:12px}
.scale{display:flex;align-items:center;gap:8px;font-size:12.5px;color:var(--soft);margin-top:10px}
.scale i{display:block;width:150px;height:9px;border-radius:5px}
.outlined{grid-template-columns:repeat(5,1fr);gap:8px}
.outlined img{border:4px solid var(--red);aspect-ratio:1;object-fit:cover}
.outlined .right img{border-color:var(--green)}
.score{white-space:nowrap;font-variant-numeric:tabular-nums;font-size:13px}
.right>figcaption,.right>.score{color:var(--green)}
.wrong>figcaption,.wrong>.score{color:var(--red)}
.right .score data,.wrong .score data{color:inherit}
.pairs{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,480px),1fr));gap:12px}
.pairs .card{margin:0}
.beside{display:grid;grid-template-columns:128px 1fr;gap:14px;align-items:start}
.beside img{width:100%;border-radius:5px}
.beside.right{border-left:5px solid var(--green)}
.beside.wrong{border-left:5px solid var(--red)}
.answers{list-style:none;margin:0;padding:0;font-size:14px;line-height:1.4}
.answers li{display:flex;justify-content:space-between;gap:12px;padding:5px 8px;margin-bottom:4px;border-radius:5px}
.answers li>span:first-child{overflow-wrap:anywhere}
.answers li.right{box-shadow:inset 0 0 0 2px var(--green)}
.answers li.wrong{box-shadow:inset 0 0 0 1px #fca5a5}
.answers .chosen{background:#eff6ff;font-weight:600}
.kind{display:inline-block;background:#eef2ff;color:#3730a3;border-radius:20px;padding:1px 10px;font-size:12.5px;
margin-bottom:6px}
mark{background:#fef08a;color:inherit;border-radius:3px;padding:0 2px}
.lost{display:block;border:1px dashed #cbd5e1;border-radius:5px;padding:18px 8px;color:var(--soft);font-size:12px;
overflow-wrap:anywhere}
details{margin-top:14px}
summary{cursor:pointer;font-weight:600}
pre{background:#f8fafc;border:1px solid var(--line);border-radius:8px;padding:14px;overflow-x:auto;line-height:1.45}
@media (max-width:600px){header,main{padding-left:10px;padding-right:10px}section{padding:16px 14px}
.beside{grid-template-columns:92px 1fr;gap:10px}.panels{grid-template-columns:repeat(auto-fill,minmax(92px,1fr))}
.tiles{grid-template-columns:repeat(2,1fr)}.tile b{font-size:20px}table{font-size:13px}
th,td{padding:5px 4px}th,.name{white-space:normal}td small,th small{display:block}}
@media print{body{background:none;font-size:12px}section{border:0;padding:6px 0;break-inside:auto}nav{display:none}
h2,h3,.caption,.legend{break-after:avoid}figure,.tile,tr,li{break-inside:avoid}.scroll{overflow:visible}
table{font-size:10.5px}th,td{padding:3px 6px}.tiles{grid-template-columns:repeat(6,1fr)}.tile{padding:6px}
.tile b{font-size:15px}.large{grid-template-columns:1fr 1fr}.small{grid-template-columns:repeat(4,1fr)}
.panels{grid-template-columns:repeat(8,1fr)}.outlined{grid-template-columns:repeat(5,1fr)}
.pairs{grid-template-columns:1fr 1fr}.beside{grid-template-columns:84px 1fr}.card{padding:8px}
figcaption,.answers{font-size:10.5px}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
"""
