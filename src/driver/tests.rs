mod ends_page;
