// Before anything is drawn, so that nothing flashes.
const chosen = localStorage.getItem('strandline.theme')
if (chosen) document.documentElement.dataset.theme = chosen
